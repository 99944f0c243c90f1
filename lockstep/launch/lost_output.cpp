#include "lockstep/launch/lost_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::launch {
namespace {

constexpr const char* kGoesOn = "; the ranks go on, and what they print until then is lost";

void tell_on_standard_error(const Problem& problem) {
  (void)write_whole(STDERR_FILENO, to_text({problem}));  // where that is broken too, nobody hears
}

/// A terminal that was hung up gives EIO, a disk that fails does as well.
bool is_reader_gone(int fd, int code) {
  struct stat info {};
  return code == EPIPE || (code == EIO && ::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode));
}

}  // namespace

int write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {  // somebody who shares the stream wants it not to block
      pollfd room{fd, POLLOUT, 0};
      (void)::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return is_reader_gone(fd, errno) ? 0 : errno;
    }
  }
  return 0;
}

LostOutput::LostOutput(std::function<void(const Problem&)> tell) : tell_(std::move(tell)) {
  if (!tell_) tell_ = tell_on_standard_error;
}

void LostOutput::write(int fd, std::string_view text) {
  if (const int code = write_whole(fd, text)) lose_stream(fd, code);
}

void LostOutput::lose_stream(int fd, int code) {
  Problem problem{"LS-3008", "standard output", "what ranks print cannot be written: ",
                  "make room on the disk or device behind it"};
  if (fd == STDERR_FILENO) problem.where = "standard error";
  problem.what += std::generic_category().message(code);
  problem.fix += kGoesOn;
  tell_first(std::move(problem));
}

void LostOutput::lose_file(const std::string& path, int code) {
  {
    const std::lock_guard lock(mutex_);
    if (std::find(files_.begin(), files_.end(), path) == files_.end()) files_.push_back(path);
    if (files_.size() > 1) return;
  }
  Problem problem{"LS-3009", path, "what a rank prints cannot be written: ",
                  "make room there (df), or choose another folder for logs"};
  problem.what += std::generic_category().message(code);
  problem.fix += kGoesOn;
  tell_first(std::move(problem));
}

void LostOutput::tell_first(Problem problem) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = std::any_of(problems_.begin(), problems_.end(), [&](const Problem& one) {
      return one.code == problem.code && one.where == problem.where;
    });
    if (is_known) return;
    problems_.push_back(problem);
  }
  tell_(problem);
}

std::vector<Problem> LostOutput::problems() const {
  const std::lock_guard lock(mutex_);
  std::vector<Problem> list = problems_;
  if (files_.size() < 2) return list;
  for (Problem& one : list) {
    if (one.code != "LS-3009") continue;
    one.what += " (and to " + std::to_string(files_.size() - 1) + " other log files)";
  }
  return list;
}

}  // namespace lockstep::launch
