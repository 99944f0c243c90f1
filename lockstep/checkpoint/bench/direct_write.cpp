#include "lockstep/checkpoint/bench/direct_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "lockstep/base/clock.h"
#include "lockstep/base/fd.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;  // direct writes are in whole ones
constexpr std::size_t kBlock = std::size_t{8} << 20;

[[noreturn]] void fail(const char* action, const fs::path& file) {
  throw fs::filesystem_error(std::string("cannot ") + action, file,
                             {errno, std::generic_category()});
}

Fd open_new(const fs::path& file) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
  Fd direct(::open(file.c_str(), kFlags | O_DIRECT, 0644));
  if (direct || errno != EINVAL) return direct;
  return Fd(::open(file.c_str(), kFlags, 0644));
}

/// Removes the file at the end, whatever happens.
struct Removed {
  const fs::path& file;
  ~Removed() {
    std::error_code ignored;  // a leftover of a benchmark; a destructor cannot throw
    fs::remove(file, ignored);
  }
};

}  // namespace

double direct_write_s(const fs::path& file, std::int64_t bytes) {
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kPage, kBlock),
                                                          &std::free);
  if (!block) throw std::bad_alloc();
  auto* words = static_cast<std::uint64_t*>(block.get());
  for (std::size_t i = 0; i < kBlock / sizeof *words; ++i) words[i] = i * 0x9e3779b97f4a7c15U;
  const Removed removed{file};
  const Stopwatch watch;
  const Fd fd = open_new(file);
  if (!fd) fail("create", file);
  auto left = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  while (left > 0) {
    const ssize_t written = ::write(fd.get(), words, std::min(left, kBlock));
    if (written < 0 && errno != EINTR) fail("write", file);
    if (written > 0) left -= static_cast<std::size_t>(written);
  }
  if (::fsync(fd.get()) != 0) fail("flush", file);
  return watch.elapsed_s();
}

}  // namespace lockstep::checkpoint
