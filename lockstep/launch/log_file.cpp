#include "lockstep/launch/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::launch {

namespace fs = std::filesystem;

LogFile::LogFile(fs::path path, std::uint64_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes) {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  open();
  if (!fd_) {
    throw EnvironmentFault(
        {"LS-3005", path_.string(),
         "the log file cannot be made: " + std::generic_category().message(errno),
         "choose a folder that can be written, or leave the log folder out"});
  }
}

void LogFile::open() {
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  bytes_ = 0;
}

void LogFile::feed(std::string_view bytes) {
  if (bytes_ + bytes.size() > max_bytes_ && bytes_ > 0) {
    std::error_code error;
    fs::rename(path_, path_.string() + ".1", error);
    open();
  }
  bytes_ += bytes.size();
  while (!bytes.empty() && fd_) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace lockstep::launch
