#include "lockstep/data/formats/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/formats/debian_package.h"

namespace lockstep::data {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kErrorTextBytes = 2000;  // of the program's complaints; the rest is dropped
constexpr std::size_t kChunkBytes = 64 * 1024;

struct Pipe {
  Fd read_end, write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw EnvironmentFault({"LS-2006", "pipe", strerror(errno), "raise the limit: ulimit -n"});
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

// Kills and reaps the program unless it was reaped by wait().
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  /// Whether the program is no longer running; it is not reaped by asking.
  [[nodiscard]] bool ended() const {
    siginfo_t info{};
    const int error = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return error != 0 || info.si_pid == pid_;
  }

 private:
  pid_t pid_;
};

class Runner {
 public:
  Runner(const std::vector<std::string>& argv, const CommandLimits& limits)
      : argv_(argv), limits_(limits), ends_at_(Clock::now() + limits.deadline) {}

  std::vector<std::uint8_t> run() {
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    Child child(start(out.write_end.get(), err.write_end.get()));
    out.write_end.reset();
    err.write_end.reset();
    drain(out.read_end, err.read_end);
    // A program that closed its output may still run: it too has to end in time.
    while (!child.ended()) ::poll(nullptr, 0, std::min(time_left_ms(), 5));
    check_status(child.wait());
    return std::move(output_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& fix) const {
    std::string said = what;
    if (!error_text_.empty()) said += "; it printed: " + error_text_;
    throw EnvironmentFault({"LS-2006", command_text(), said, fix});
  }

  [[nodiscard]] std::string command_text() const {
    std::string text = "!";
    for (const std::string& word : argv_) text += (text.size() > 1 ? " " : "") + word;
    return text;
  }

  pid_t start(int out, int err) const {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    std::vector<char*> words;  // exec's interface is not const; it only reads them
    for (const std::string& word : argv_) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_t pid = -1;
    const int error = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      fail(std::string("the program cannot be started: ") + strerror(error),
           install_hint(argv_.front()));
    }
    return pid;
  }

  int time_left_ms() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(ends_at_ - Clock::now());
    if (left.count() <= 0) {
      fail("did not end within " + std::to_string(limits_.deadline.count() / 1000) + " s",
           "write its output into a file once and name that file");
    }
    return static_cast<int>(left.count());
  }

  void drain(Fd& out, Fd& err) {
    while (out || err) {
      std::array<pollfd, 2> waiting{{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), time_left_ms()) < 0 && errno != EINTR) {
        fail(std::string("poll: ") + strerror(errno), "try again");
      }
      if (waiting[0].revents != 0 && !append_output(out)) out.reset();
      if (waiting[1].revents != 0 && !append_error_text(err)) err.reset();
    }
  }

  // Both return false at the end of the stream.
  bool append_output(const Fd& fd) {
    const std::size_t size = output_.size();
    output_.resize(size + kChunkBytes);
    const ssize_t got = ::read(fd.get(), output_.data() + size, kChunkBytes);
    const bool retry = got < 0 && errno == EINTR;
    output_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (output_.size() > limits_.output_bytes) {
      fail("printed more than " + std::to_string(limits_.output_bytes) + " bytes",
           "write a part of its output into a file and name that file");
    }
    return got > 0 || retry;
  }

  bool append_error_text(const Fd& fd) {
    std::array<char, 4096> chunk{};
    const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
    if (got > 0) error_text_.append(chunk.data(), static_cast<std::size_t>(got));
    if (error_text_.size() > kErrorTextBytes) error_text_.resize(kErrorTextBytes);
    return got > 0 || (got < 0 && errno == EINTR);
  }

  void check_status(int status) const {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::string how = WIFEXITED(status)
                                ? "ended with status " + std::to_string(WEXITSTATUS(status))
                                : "was ended by signal " + std::to_string(WTERMSIG(status));
    fail(how, "run the command by hand and see what it says");
  }

  const std::vector<std::string>& argv_;
  CommandLimits limits_;
  Clock::time_point ends_at_;
  std::vector<std::uint8_t> output_;
  std::string error_text_;
};

}  // namespace

std::vector<std::uint8_t> command_output(const std::vector<std::string>& argv,
                                         const CommandLimits& limits) {
  LOCKSTEP_CHECK(!argv.empty(), "a command needs a program");
  return Runner(argv, limits).run();
}

}  // namespace lockstep::data
