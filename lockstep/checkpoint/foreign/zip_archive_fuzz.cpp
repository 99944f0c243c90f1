// Any bytes as a file of torch.save: its archive, its pickle and its tensors are read within the
// file, or refused with BadData.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "tests/fuzz/verdict.h"

namespace {

using lockstep::checkpoint::InputFile;
using lockstep::checkpoint::TorchFileSource;
using lockstep::checkpoint::ZipArchive;

/// A file in memory, by its name.
std::string file_of(const lockstep::Fd& fd, const std::uint8_t* data, std::size_t size) {
  LOCKSTEP_CHECK(fd && ::write(fd.get(), data, size) == static_cast<ssize_t>(size), "no memory");
  return "/proc/self/fd/" + std::to_string(fd.get());
}

void read_entries(const std::string& path) {
  const InputFile file(path);
  const ZipArchive archive(file);
  std::uint64_t end = 0;
  for (const auto& entry : archive.entries()) {
    LOCKSTEP_CHECK(entry.offset >= end, "entries overlap");
    if (!entry.stored) continue;
    end = entry.offset + entry.bytes;
    LOCKSTEP_CHECK(end >= entry.offset && end <= file.size_bytes(), "an entry leaves the file");
    std::vector<std::byte> bytes(entry.bytes);
    archive.read(entry, 0, bytes);
  }
}

void read_tensors(const std::string& path) {
  const TorchFileSource source(path);
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const std::uint64_t bytes = source.tensors()[i].bytes();
    std::vector<std::byte> part(std::min<std::uint64_t>(bytes, 4096));
    source.read(i, 0, part);
    source.read(i, bytes - part.size(), part);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lockstep::Fd fd(::memfd_create("fuzz", MFD_CLOEXEC));
  const std::string path = file_of(fd, data, size);
  try {
    read_entries(path);
    read_tensors(path);
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
