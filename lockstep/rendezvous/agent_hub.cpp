#include "lockstep/rendezvous/agent_hub.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "lockstep/base/limits.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::uint64_t kListener = 0;  // in epoll, beside the ids of peers
constexpr std::size_t kMaxConnections = 16384;
constexpr std::size_t kMaxAgentIdBytes = 256;
constexpr int kAcceptsPerRound = 64;
constexpr int kEventsPerRound = 256;
constexpr std::chrono::milliseconds kAcceptPause{50};  // when descriptors ran out
constexpr std::chrono::seconds kFarewell{1};
constexpr std::size_t kNumberBytes = 8;

/// A flood must not take the descriptors of the rest of this process.
std::size_t connection_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return std::clamp<std::size_t>(limit.rlim_cur / 2, 16, kMaxConnections);
}

}  // namespace

AgentHub::AgentHub(Listener listener, const JobKey& key, HubIdentity identity, OnNote on_note,
                   HubLimits limits)
    : listener_(std::move(listener)),
      key_(key),
      identity_(std::move(identity)),
      notes_(std::move(on_note)),
      limits_(limits),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw limit_fault("the control port cannot be served", errno);
  if (limits_.connections == 0) limits_.connections = connection_limit();
  epoll_event interest{EPOLLIN, {}};
  interest.data.u64 = kListener;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.fd.get(), &interest) != 0) {
    throw limit_fault("the control port cannot be served", errno);
  }
}

AgentHub::~AgentHub() {
  // Closing at once would throw away what an agent has not read yet: wait for their ends.
  for (auto& [id, peer] : peers_) {
    if (!peer.link.is_proved()) continue;
    peer.link.flush();
    if (!peer.link.has_output()) peer.link.finish_sending();
  }
  listener_.fd.reset();
  const auto deadline = Clock::now() + kFarewell;
  const auto is_open = [](const auto& entry) {
    return entry.second.link.is_proved() && entry.second.link.end() == ControlLink::End::open;
  };
  while (std::any_of(peers_.begin(), peers_.end(), is_open) && Clock::now() < deadline) {
    pollfd ready{epoll_.get(), POLLIN, 0};
    if (::poll(&ready, 1, poll_timeout_ms(deadline)) <= 0) continue;
    std::array<epoll_event, kEventsPerRound> happened{};
    const int count = ::epoll_wait(epoll_.get(), happened.data(), kEventsPerRound, 0);
    for (const auto& event : std::span(happened).first(std::max(count, 0))) {
      const auto found = peers_.find(event.data.u64);
      if (found == peers_.end()) continue;
      ControlLink& link = found->second.link;
      const bool had_output = link.has_output();
      link.flush();
      if (had_output && !link.has_output()) link.finish_sending();
      link.receive();
      while (link.next().has_value()) {
      }
      if (!link.is_proved() || link.end() != ControlLink::End::open) peers_.erase(found);
    }
  }
}

Deadline AgentHub::wake_at() const {
  auto at = Clock::time_point::max();
  if (!accepts_) at = std::min(at, accept_again_);
  if (!arrivals_.empty()) at = std::min(at, arrivals_.front().second + limits_.handshake);
  if (!members_.empty()) at = std::min(at, silence_check_);
  for (const auto& [agent, member] : members_) {
    if (member.peer == 0) at = std::min(at, member.gone_at);
  }
  return at;
}

void AgentHub::serve(std::vector<BoardEvent>& events) {
  std::array<epoll_event, kEventsPerRound> happened{};
  const int count = ::epoll_wait(epoll_.get(), happened.data(), kEventsPerRound, 0);
  bool knocks = false;
  for (const auto& event : std::span(happened).first(std::max(count, 0))) {
    knocks = knocks || event.data.u64 == kListener;
    const auto found = peers_.find(event.data.u64);
    if (found == peers_.end()) continue;
    if ((event.events & EPOLLOUT) != 0) feed(found->first, found->second);
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
      converse(found->first, found->second, events);
    }
  }
  // After the events, which name peers: a number of a new one is never taken for an old one's.
  if (knocks) accept_new();
  tend(Clock::now(), events);
}

void AgentHub::converse(PeerId id, Peer& peer, std::vector<BoardEvent>& events) {
  peer.link.receive();
  while (auto frame = peer.link.next()) {
    peer.heard = Clock::now();
    take(id, peer, *frame, events);
    if (!peers_.contains(id)) return;
  }
  if (peer.link.end() == ControlLink::End::open) return watch(id, peer);
  tell_refusal(peer.link);
  drop(id);
}

void AgentHub::take(PeerId id, Peer& peer, Frame& frame, std::vector<BoardEvent>& events) {
  const bool joined = !peer.agent.empty();
  if (frame.kind == FrameKind::join && !joined && !frame.payload.empty() &&
      frame.payload.size() <= kMaxAgentIdBytes) {
    join(id, peer, frame.payload);
  } else if (frame.kind == FrameKind::record && joined && frame.payload.size() >= kNumberBytes) {
    peer.answer = frame.payload.substr(0, kNumberBytes);
    events.push_back({BoardEvent::Kind::record, peer.agent, frame.payload.substr(kNumberBytes)});
    feed(id, peer);
  } else if (frame.kind == FrameKind::leave && joined) {
    const std::string agent = peer.agent;
    drop(id);
    members_.erase(agent);
    events.push_back({BoardEvent::Kind::gone, agent, {}});
  } else {
    notes_.tell("control port: " + peer.link.peer() + " said what does not belong here; cut off");
    drop(id);
  }
}

void AgentHub::join(PeerId id, Peer& peer, const std::string& agent) {
  Member& member = members_[agent];
  const PeerId before = std::exchange(member.peer, id);
  peer.agent = agent;
  if (before != 0) drop(before);
  peer.link.send(FrameKind::welcome, identity_.lineage + identity_.leader);
  peer.state_waits = !state_.empty();
  feed(id, peer);
}

void AgentHub::feed(PeerId id, Peer& peer) {
  peer.link.flush();
  if (!peer.link.has_output() && std::exchange(peer.state_waits, false)) {
    peer.link.send(FrameKind::state, state_);
  }
  if (!peer.link.has_output() && !peer.answer.empty()) {
    peer.link.send(FrameKind::heard, std::exchange(peer.answer, {}));
  }
  watch(id, peer);
}

void AgentHub::watch(PeerId id, Peer& peer) {
  const bool wanted = peer.link.has_output();
  if (wanted == peer.watches_output) return;
  peer.watches_output = wanted;
  epoll_event interest{EPOLLIN | (wanted ? EPOLLOUT : 0U), {}};
  interest.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.link.fd(), &interest);
}

void AgentHub::announce(const std::string& state) {
  if (state == state_) return;
  state_ = state;
  for (auto& [id, peer] : peers_) {
    if (peer.agent.empty()) continue;
    peer.state_waits = true;
    feed(id, peer);
  }
}

/// The connection goes; who joined over it may come back for a while.
void AgentHub::drop(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const auto member = members_.find(found->second.agent);
  if (member != members_.end() && member->second.peer == id) {
    member->second = {0, Clock::now() + limits_.grace};
  }
  peers_.erase(found);
}

void AgentHub::tell_refusal(const ControlLink& link) {
  const auto end = link.end();
  // Agents come and go, port scanners too: no news.
  if (end == ControlLink::End::closed) return;
  std::string text = "control port: refused " + link.peer() + ": it " + link.end_text();
  if (end == ControlLink::End::other_secret) {
    text += "; give the agents of all hosts the same secret file (mode 0600)";
  } else if (end == ControlLink::End::other_version) {
    text += "; install one version of lockstep on all hosts";
  } else if (end == ControlLink::End::other_job) {
    text += "; give jobs that run at the same time different ports";
  }
  notes_.tell(text);
}

void AgentHub::tend(Clock::time_point now, std::vector<BoardEvent>& events) {
  notes_.tend();
  if (!accepts_ && now >= accept_again_) listen_for(true);
  while (!arrivals_.empty()) {
    const auto [id, arrived] = arrivals_.front();
    const auto found = peers_.find(id);
    const bool is_stranger = found != peers_.end() && !found->second.link.is_proved();
    if (is_stranger && now < arrived + limits_.handshake) break;
    if (is_stranger) {
      notes_.tell("control port: refused " + found->second.link.peer() +
                  ": it did not prove in time that it is an agent of this job");
      drop(id);
    }
    arrivals_.pop_front();
  }
  if (now >= silence_check_) {
    silence_check_ = now + std::chrono::seconds(1);
    std::vector<PeerId> silent;
    for (const auto& [id, peer] : peers_) {
      if (peer.link.is_proved() && now >= peer.heard + limits_.silence) silent.push_back(id);
    }
    for (const PeerId id : silent) drop(id);
  }
  for (auto entry = members_.begin(); entry != members_.end();) {
    if (entry->second.peer != 0 || now < entry->second.gone_at) {
      ++entry;
      continue;
    }
    events.push_back({BoardEvent::Kind::gone, entry->first, {}});
    entry = members_.erase(entry);
  }
}

void AgentHub::listen_for(bool connections) {
  accepts_ = connections;
  epoll_event interest{connections ? static_cast<std::uint32_t>(EPOLLIN) : 0U, {}};
  interest.data.u64 = kListener;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.fd.get(), &interest);
}

void AgentHub::accept_new() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Fd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      admit(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      drop_oldest_stranger();
      accept_again_ = Clock::now() + kAcceptPause;
      return listen_for(false);
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void AgentHub::admit(Fd socket) {
  if (peers_.size() >= limits_.connections) drop_oldest_stranger();
  if (peers_.size() >= limits_.connections) {
    notes_.tell("control port: no room for more than " + std::to_string(limits_.connections) +
                " connections (ulimit -n)");
    return;
  }
  const PeerId id = next_id_++;
  epoll_event interest{EPOLLIN, {}};
  interest.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &interest) != 0) return;
  peers_.emplace(id, Peer{ControlLink(std::move(socket), Side::answerer, key_)});
  arrivals_.emplace_back(id, Clock::now());
}

/// Of those who have not proved themselves.
void AgentHub::drop_oldest_stranger() {
  while (!arrivals_.empty()) {
    const PeerId id = arrivals_.front().first;
    arrivals_.pop_front();
    const auto found = peers_.find(id);
    if (found == peers_.end() || found->second.link.is_proved()) continue;
    return drop(id);
  }
}

}  // namespace lockstep::rendezvous
