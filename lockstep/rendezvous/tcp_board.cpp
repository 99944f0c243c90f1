#include "lockstep/rendezvous/tcp_board.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/rendezvous/agent_hub.h"
#include "lockstep/rendezvous/leader_link.h"
#include "lockstep/rendezvous/leader_mark.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kLineageBytes = 16;

std::string new_lineage() {
  const Secret random = random_secret();
  return {random.begin(), random.begin() + kLineageBytes};
}

bool is_readable(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return fd >= 0 && ::poll(&ready, 1, 0) > 0;
}

}  // namespace

struct TcpBoard::Impl {
  explicit Impl(TcpBoardOptions given) : options(std::move(given)), link(options) {}

  void lead();
  void tell_own_record();
  void sleep(Deadline until, int wake_fd) const;

  TcpBoardOptions options;
  LeaderLink link;
  std::optional<AgentHub> hub;     // of the leader
  std::optional<LeaderMark> mark;  // of the leader, until its job has ended
  std::vector<BoardEvent> events;
  std::string record;
  Deadline published{};
};

void TcpBoard::Impl::lead() {
  // Without a state there is nothing to go on from: it is another start of the job.
  const std::string lineage = link.last_state().empty() ? new_lineage() : link.lineage();
  mark.emplace(options.mark_folder, options.key, options.endpoint);
  const Deadline led_until = mark->before();
  mark->renew();
  if (!mark->is_kept() && options.on_note) {
    options.on_note("no mark can be kept in " + options.mark_folder.string() +
                    ": should this agent be killed, wait four seconds before the job is started "
                    "again");
  }
  hub.emplace(link.take_listener(), options.key, HubIdentity{options.agent, lineage},
              options.on_note);
  if (!link.last_state().empty()) hub->announce(link.last_state());
  events.push_back({BoardEvent::Kind::leading, options.agent, link.last_state(), led_until});
  if (!record.empty()) tell_own_record();
}

/// The leader hears itself at once.
void TcpBoard::Impl::tell_own_record() {
  events.push_back({BoardEvent::Kind::record, options.agent, record});
  events.push_back({BoardEvent::Kind::heard, {}, {}, published});
}

void TcpBoard::Impl::sleep(Deadline until, int wake_fd) const {
  std::vector<pollfd> polls;
  if (wake_fd >= 0) polls.push_back({wake_fd, POLLIN, 0});
  if (hub.has_value()) {
    polls.push_back({hub->fd(), POLLIN, 0});
  } else {
    link.add_polls(polls);
  }
  const Deadline next = hub.has_value() ? hub->wake_at() : link.wake_at();
  ::poll(polls.data(), polls.size(), poll_timeout_ms(std::min(until, next)));
}

TcpBoard::TcpBoard(TcpBoardOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

TcpBoard::~TcpBoard() {
  if (!impl_->hub.has_value()) impl_->link.leave();
}

void TcpBoard::publish(const std::string& record) {
  impl_->record = record;
  impl_->published = std::chrono::steady_clock::now();
  if (impl_->hub.has_value()) {
    impl_->tell_own_record();
  } else {
    impl_->link.publish(record);
  }
}

void TcpBoard::announce(const std::string& state) {
  if (!impl_->hub.has_value()) return;
  impl_->hub->announce(state);
  impl_->events.push_back({BoardEvent::Kind::state, {}, state});
}

void TcpBoard::conclude() {
  if (!impl_->mark) return;
  impl_->mark->clear();
  impl_->mark.reset();
}

std::vector<BoardEvent> TcpBoard::wait(Deadline until, int wake_fd) {
  while (true) {
    if (impl_->hub.has_value()) {
      if (impl_->mark) impl_->mark->renew();
      impl_->hub->serve(impl_->events);
    } else {
      impl_->link.tend(impl_->events);
      if (impl_->link.has_listener()) impl_->lead();
    }
    const bool is_late = std::chrono::steady_clock::now() >= until;
    if (!impl_->events.empty() || is_late || is_readable(wake_fd)) {
      return std::exchange(impl_->events, {});
    }
    impl_->sleep(until, wake_fd);
  }
}

}  // namespace lockstep::rendezvous
