#include "lockstep/launch/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/limits.h"

namespace lockstep::launch {

namespace fs = std::filesystem;

LogFile::LogFile(fs::path path, LostOutput& lost, std::uint64_t max_bytes)
    : path_(std::move(path)), lost_(lost), max_bytes_(max_bytes) {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  open();
  if (fd_) return;
  if (errno == EMFILE || errno == ENFILE) {
    throw limit_fault("the log file " + path_.string() + " cannot be made", errno);
  }
  throw EnvironmentFault({"LS-3005", path_.string(),
                          "the log file cannot be made: " + std::generic_category().message(errno),
                          "choose a folder that can be written, or leave the log folder out"});
}

void LogFile::open() {
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  bytes_ = 0;
}

void LogFile::turn_over() {
  std::error_code error;
  fs::rename(path_, path_.string() + ".1", error);
  if (error) lost_.lose_file(path_.string(), error.value());
  open();
}

void LogFile::feed(std::string_view bytes) {
  if (bytes_ + bytes.size() > max_bytes_ && bytes_ > 0) turn_over();
  if (!fd_) open();  // it could not be made anew the last time
  const int code = fd_ ? write_whole(fd_.get(), bytes) : errno;
  if (code != 0) return lost_.lose_file(path_.string(), code);
  bytes_ += bytes.size();
}

}  // namespace lockstep::launch
