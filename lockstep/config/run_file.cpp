#include "lockstep/config/run_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::config {
namespace {

struct Named {
  const std::string& file;
  const std::string& what;
};

[[noreturn]] void fail(const Named& named, const std::string& why) {
  throw UsageError({{"LS-1001", named.file, named.what + " cannot be read" + why,
                     "check the path; it is taken from the folder this command runs in"}});
}

[[noreturn]] void fail_by_system(const Named& named) {
  fail(named, errno == ENOENT ? "" : ": " + std::generic_category().message(errno));
}

}  // namespace

std::string read_run_file(const std::string& file, std::size_t most_bytes,
                          const std::string& what) {
  const Named named{file, what};
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) fail_by_system(named);
  const bool is_open_pipe = S_ISFIFO(status.st_mode) && file.starts_with("/dev/");
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode) && !is_open_pipe) {
    fail(named, S_ISDIR(status.st_mode) ? ": it is a folder" : ": it is not a regular file");
  }
  (void)::fcntl(fd.get(), F_SETFL, 0);  // a pipe's writer may take its time
  std::string text;
  while (text.size() < most_bytes) {
    const std::size_t before = text.size();
    text.resize(std::min(most_bytes, before + (std::size_t{1} << 16)));
    const ssize_t n = ::read(fd.get(), text.data() + before, text.size() - before);
    text.resize(before + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n < 0 && errno != EINTR) fail_by_system(named);
    if (n == 0) break;
  }
  return text;
}

}  // namespace lockstep::config
