#include "lockstep/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/base/fd.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Handed to the disk at once. Left to the flush at the end, a gigabyte takes 1.5 to 2.5 times as
// long; pieces of 8 MiB reach the disk later than those of 1 MiB, by a quarter.
constexpr std::size_t kWriteBehind = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& action, const fs::path& path) {
  throw fs::filesystem_error("cannot " + action, path, {errno, std::generic_category()});
}

/// A rename is durable only once its folder is.
void flush_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) fail("open the folder", folder);
  // Some network file systems cannot flush a folder and say so with EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail("flush the folder", folder);
}

}  // namespace

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)), temporary_(target_) {
  std::error_code none;  // there is no target yet
  const fs::file_status status = fs::status(target_, none);
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // /dev/stdout, a pipe, a folder
    temporary_.clear();
    throw fs::filesystem_error("replace what is no regular file", target_,
                               std::make_error_code(std::errc::invalid_argument));
  }
  // The process id keeps two writers of one target from sharing a half-written file.
  temporary_ += "." + std::to_string(::getpid()) + ".tmp";
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  std::error_code ignored;  // after commit() there is nothing to remove; a destructor cannot throw
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kWriteBehind));
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      written_ += written;
      start_writing_back();
    } else if (errno != EINTR) {
      fail("write", temporary_);
    }
  }
}

/// Only sooner: where it is not possible, and where it fails, the flush at the end says so.
void AtomicFile::start_writing_back() {
  const std::int64_t waiting = written_ - on_its_way_;
  if (waiting < static_cast<std::int64_t>(kWriteBehind)) return;
  (void)::sync_file_range(fd_, on_its_way_, waiting, SYNC_FILE_RANGE_WRITE);
  on_its_way_ = written_;
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("flush", temporary_);
  if (::close(std::exchange(fd_, -1)) != 0) fail("close", temporary_);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail("rename to " + target_.string(), temporary_);
  temporary_.clear();
  flush_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace lockstep
