// Two hosts as two threads of a child process, each in a network of its own, joined by one cable;
// for tests.
#pragma once
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>

namespace lockstep::rendezvous {

/// Runs a command in the network of this thread.
inline void ip(const std::string& words) {
  if (std::system(("ip " + words).c_str()) != 0) throw std::runtime_error("ip " + words);
}

/// 10.77.0.1 of host 0, 10.77.0.2 of host 1; the device is called "cable" on both.
class TwoHosts {
 public:
  using OnHost = std::function<std::string()>;

  /// What the two return, in one text; neither is told when the other has returned.
  /// Needs `ip`, and root or a system that gives every user namespaces.
  [[nodiscard]] static std::string run(const OnHost& host0, const OnHost& host1) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string text = in_child(host0, host1);
      (void)!::write(pipe[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(pipe[1]);
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t n = 0; (n = ::read(pipe[0], piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(n));
    }
    ::close(pipe[0]);
    ::waitpid(child, nullptr, 0);
    return text;
  }

 private:
  static std::string in_child(const OnHost& host0, const OnHost& host1) {
    try {
      if (::geteuid() != 0) become_root();
      std::promise<std::string> place;
      std::promise<void> joined;
      auto other = std::async(std::launch::async, [&] {
        if (::unshare(CLONE_NEWNET) != 0) throw std::runtime_error("no network namespace");
        place.set_value("/proc/" + std::to_string(::getpid()) + "/task/" +
                        std::to_string(::syscall(SYS_gettid)) + "/ns/net");
        joined.get_future().wait();
        set_up("10.77.0.2");
        return host1();
      });
      if (::unshare(CLONE_NEWNET) != 0) throw std::runtime_error("no network namespace");
      ip("link add cable type veth peer name cable netns " + place.get_future().get());
      set_up("10.77.0.1");
      joined.set_value();
      const std::string text = host0();
      return text + other.get();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  static void become_root() {
    const std::string user = std::to_string(::geteuid());
    if (::unshare(CLONE_NEWUSER) != 0) throw std::runtime_error("no user namespace");
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  }

  static void set_up(const std::string& address) {
    ip("link set lo up");
    ip("address add " + address + "/24 dev cable");
    ip("link set cable up");
  }
};

}  // namespace lockstep::rendezvous
