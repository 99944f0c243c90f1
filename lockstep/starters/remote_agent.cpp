#include "lockstep/starters/remote_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/base/limits.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/starters/agent_order.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX declares it nowhere

namespace lockstep::starters {
namespace {

constexpr int kStdout = 1;
constexpr int kStderr = 2;

/// Appends what is there. \returns false at the end of the stream.
bool read_some(int fd, std::string& bytes) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  bytes.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

/// \param rest what came behind the order.
AgentOrder receive_order(int fd, std::string& rest) {
  std::string bytes;
  while (true) {
    ReadOrder read = read_order(bytes);
    if (read.state == OrderState::complete) {
      rest = bytes.substr(read.used_bytes);
      return std::move(read.order);
    }
    if (read.state == OrderState::malformed || !read_some(fd, bytes)) {
      throw UsageError({{"LS-3082", "standard input", "holds no order of a launcher",
                         "`lockstep launch --hosts ...` starts this by itself; a login script of "
                         "this host must leave standard input alone"}});
    }
  }
}

/// This host's own variables, with those of the order in place of its own.
std::vector<std::string> merged(const std::vector<std::string>& ordered) {
  std::map<std::string, std::string, std::less<>> variables;
  const auto take = [&](const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  };
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) take(*one);
  for (const std::string& one : ordered) take(one);
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& one : environment) {
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
      return one.substr(name.size() + 1);
    }
  }
  return "";
}

/// The reading end of a pipe that holds `secret` and nothing more; -1 for an empty one.
Fd secret_pipe(const std::string& secret) {
  if (secret.empty()) return {};
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw limit_fault("no pipe can be made", errno);
  Fd read_end(fds[0]);
  const Fd write_end(fds[1]);
  const ssize_t written = ::write(write_end.get(), secret.data(), secret.size());
  LOCKSTEP_CHECK(written == static_cast<ssize_t>(secret.size()), "a secret larger than a pipe");
  return read_end;
}

launch::ChildProcess start(const AgentOrder& order) {
  std::error_code failed;
  if (!order.folder.empty()) std::filesystem::current_path(order.folder, failed);
  if (failed) {
    throw EnvironmentFault({"LS-3083", order.folder,
                            "this host has no such folder: " + failed.message(),
                            "all hosts need the folder that the job is started in, at one path"});
  }
  launch::ChildSpec spec;
  spec.argv = order.command;
  spec.environment = merged(order.environment);
  spec.program = launch::find_program(order.command.front(), value_of(spec.environment, "PATH"));
  spec.stdout_fd = kStdout;
  spec.stderr_fd = kStderr;
  const Fd secret = secret_pipe(order.secret);
  spec.extra_fd = secret.get();
  return launch::ChildProcess(spec);
}

/// A launcher that has just been started would end of it.
void pass_on(const launch::ChildProcess& child, int signal) {
  if (launch::is_awaited(child.pid(), signal)) child.send_signal(signal);
}

/// Waits for the end of `child`, or kills it when the other side has gone.
launch::ChildEnd watch(launch::ChildProcess& child, int order_fd, std::string rest) {
  while (true) {
    for (const char byte : rest) {
      if (byte == kStopByte) child.send_signal(SIGTERM);
      if (byte == kUser1Byte) pass_on(child, SIGUSR1);
      if (byte == kUser2Byte) pass_on(child, SIGUSR2);
    }
    rest.clear();
    std::array<pollfd, 2> fds{pollfd{child.pidfd(), POLLIN, 0}, pollfd{order_fd, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0) break;
    if (fds[1].revents != 0 && !read_some(order_fd, rest)) {
      child.kill_group();
      break;
    }
  }
  return child.reap();
}

}  // namespace

Exit run_remote_agent(int order_fd) {
  ::signal(SIGPIPE,
           SIG_IGN);  // whoever read our output may have gone: the command ends all the same
  ::signal(SIGHUP, SIG_IGN);  // the end of the connection is told by standard input
  std::string rest;
  const AgentOrder order = receive_order(order_fd, rest);
  launch::ChildProcess child = start(order);
  const launch::ChildEnd end = watch(child, order_fd, std::move(rest));
  return end.signal != 0 ? Exit::failed : static_cast<Exit>(end.exit_code);
}

}  // namespace lockstep::starters
