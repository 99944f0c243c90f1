// A proxy in front of a port of this machine, for tests: passes bytes on later, or not at all.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/socket.h"

namespace lockstep::comm::control {

class SlowLink {
 public:
  /// \param delay of each direction.
  SlowLink(int target_port, std::chrono::milliseconds delay)
      : target_port_(target_port), delay_(delay), listener_(listen_on("127.0.0.1", 0)) {
    thread_ = std::thread([this] { run(); });
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;
  ~SlowLink() {
    stop_.store(true);
    thread_.join();
  }

  [[nodiscard]] int port() const { return listener_.port; }
  /// From now on nothing passes, and no connection ends.
  void cut() { cut_.store(true); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Way {
    int from;
    int to;
    std::deque<std::pair<Clock::time_point, std::string>> under_way{};
    bool ended = false;
  };

  void run() {
    while (!stop_.load()) {
      accept_new();
      if (!cut_.load()) {
        for (Way& way : ways_) pass(way);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void accept_new() {
    Fd client(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    Fd server = connect_to("127.0.0.1", target_port_, Clock::now() + std::chrono::seconds(5));
    ways_.push_back({client.get(), server.get()});
    ways_.push_back({server.get(), client.get()});
    sockets_.push_back(std::move(client));
    sockets_.push_back(std::move(server));
  }

  void pass(Way& way) {
    std::array<char, 4096> bytes;
    const ssize_t n = ::recv(way.from, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      way.under_way.emplace_back(Clock::now() + delay_,
                                 std::string(bytes.data(), static_cast<std::size_t>(n)));
    } else if (n == 0 && !std::exchange(way.ended, true)) {
      way.under_way.emplace_back(Clock::now() + delay_, "");
    }
    while (!way.under_way.empty() && way.under_way.front().first <= Clock::now()) {
      std::string& ready = way.under_way.front().second;
      if (ready.empty()) ::shutdown(way.to, SHUT_WR);
      (void)write_all(way.to, {reinterpret_cast<std::uint8_t*>(ready.data()), ready.size()},
                      Clock::now() + std::chrono::seconds(1));
      way.under_way.pop_front();
    }
  }

  const int target_port_;
  const std::chrono::milliseconds delay_;
  Listener listener_;
  std::vector<Fd> sockets_;
  std::vector<Way> ways_;
  std::atomic<bool> cut_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lockstep::comm::control
