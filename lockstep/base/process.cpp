#include "lockstep/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

namespace lockstep {
namespace {

std::terminate_handler before = nullptr;

/// Allocates nothing: there may be nothing to allocate.
[[noreturn]] void end_out_of_memory() {
  constexpr std::string_view kLine =
      "error LS-3007: out of memory or threads\n"
      "  fix: raise the limits on memory (ulimit -v) and processes (ulimit -u), or free memory of "
      "the machine\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(static_cast<int>(Exit::environment));
}

bool is_shortage(const std::system_error& error) {
  const int code = error.code().value();
  return code == EAGAIN || code == ENOMEM;
}

[[noreturn]] void on_terminate() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (const std::system_error& error) {
    if (is_shortage(error)) end_out_of_memory();
  } catch (...) {
  }
  // A thread that could not be made beside others that run: they are destroyed while its exception
  // is on its way, which ends here without one.
  if (!std::current_exception() && std::uncaught_exceptions() > 0) end_out_of_memory();
  if (before != nullptr) before();
  std::abort();
}

/// The reader of a pipe or socket has left.
bool is_reader_gone(int fd) {
  pollfd state{fd, POLLOUT, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

}  // namespace

void prepare_process() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    // The lowest free number is taken, and those below are in use by now.
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
  ::signal(SIGXFSZ, SIG_IGN);
  before = std::set_terminate(on_terminate);
}

Exit settle_output(Exit exit) {
  std::cout.flush();
  if (std::cout.good() || is_reader_gone(STDOUT_FILENO)) return exit;
  std::cerr << to_text({{"LS-3008", "standard output", "not all of the result could be written",
                         "see whether the disk or device behind it is full, then run it again"}})
            << std::flush;
  return exit == Exit::ok ? Exit::environment : exit;
}

}  // namespace lockstep
