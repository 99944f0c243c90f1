#include "lockstep/rendezvous/reach.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kLongestPause{250};

bool is_readable_within(int fd, milliseconds time) {
  pollfd ready{fd, POLLIN, 0};  // poll() ignores fd -1
  return ::poll(&ready, 1, static_cast<int>(time.count())) > 0;
}

/// One attempt, until it ends, the deadline, or the stop.
void wait_for(Attempt& attempt, Deadline deadline, int stop_fd) {
  while (!attempt.look()) {
    std::vector<pollfd> polls{{stop_fd, POLLIN, 0}};
    for (const Fd& socket : attempt.sockets()) polls.push_back({socket.get(), POLLOUT, 0});
    ::poll(polls.data(), polls.size(), poll_timeout_ms(deadline));
    if (polls[0].revents != 0 || Clock::now() >= deadline) return attempt.give_up();
  }
}

}  // namespace

Tried try_to_connect(const Endpoint& endpoint, Deadline deadline, int stop_fd) {
  try {
    Attempt attempt(endpoint, resolve(endpoint.host, endpoint.port));
    wait_for(attempt, deadline, stop_fd);
    return {attempt.take_connected(), attempt.unreached(), attempt.text()};
  } catch (const EnvironmentFault& fault) {
    return {{}, Unreached::name, fault.problems().front().what};
  }
}

bool reach(const Endpoint& endpoint, const ReachTimes& times, const OnWaiting& on_waiting,
           int stop_fd) {
  const auto start = Clock::now();
  auto since = start;  // nothing but `last` was met
  auto tell_at = start + kTellWaitingEvery;
  std::optional<Unreached> last;
  milliseconds pause(5);
  while (true) {
    const auto begun = Clock::now();
    const Tried met = try_to_connect(endpoint, begun + times.hopeless, stop_fd);
    if (met.connected) return true;
    if (last != met.unreached) since = begun;
    last = met.unreached;
    const bool is_refused = met.unreached == Unreached::refused;
    const auto now = Clock::now();
    if (is_readable_within(stop_fd, milliseconds(0))) return false;
    if (now >= since + (is_refused ? times.join : times.hopeless) || now >= start + times.join) {
      throw unreached_fault(endpoint, met.unreached, met.text,
                            std::chrono::duration<double>(now - start).count());
    }
    if (on_waiting && now >= tell_at) {
      tell_at = now + kTellWaitingEvery;
      on_waiting(is_refused ? "nobody listens at " + endpoint.text() + " yet: " + met.text
                            : met.text);
    }
    if (is_readable_within(stop_fd, pause)) return false;
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace lockstep::rendezvous
