#include "lockstep/checkpoint/format/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/disk_fault.h"

namespace lockstep::checkpoint {
namespace {

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR || error == ELOOP) {
    throw BadData(
        {"LS-5003", path.string(),
         error == ELOOP ? "a link that leads back to itself" : "no such file in the checkpoint",
         "name a folder step-N that holds manifest.json"});
  }
  const DiskAnswer answer = disk_answer(error);
  throw EnvironmentFault({"LS-5002", path.string(), "cannot read: " + answer.reason, answer.fix});
}

}  // namespace

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) throw_unreadable(path_, errno);
  if (!S_ISREG(status.st_mode)) throw_damaged(path_.string(), "not a regular file");
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(path_, errno);
    if (got == 0) {
      throw_damaged(path_.string(), "ends at byte " + std::to_string(offset) + ", " +
                                        std::to_string(out.size()) + " more expected");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > max_bytes) {
    throw_damaged(path.string(), "larger than " + std::to_string(max_bytes) + " bytes");
  }
  std::string text(file.size_bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace lockstep::checkpoint
