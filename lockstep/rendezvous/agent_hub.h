// The control port of the agent that leads: where all others connect to.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/board.h"
#include "lockstep/rendezvous/control_link.h"
#include "lockstep/rendezvous/note_limit.h"

namespace lockstep::rendezvous {

struct HubLimits {
  std::chrono::milliseconds handshake{5000};  // from the connection to the proof
  std::chrono::milliseconds silence{10000};   // of an agent that joined, before it is cut off
  std::chrono::milliseconds grace{1000};      // for an agent whose connection broke to come back
  std::size_t connections = 0;                // 0 = half of the descriptors this process may open
};

/// Whose port it is.
struct HubIdentity {
  std::string leader;   // its agent's id
  std::string lineage;  // 16 random bytes of the first leader; who takes over after it keeps them
};

/// Serves without a thread of its own. A stranger costs one descriptor and a few hundred bytes
/// until the handshake's deadline, and when descriptors run out the oldest goes first; an agent
/// that reads slowly gets the newest state only.
class AgentHub {
 public:
  AgentHub(Listener listener, const JobKey& key, HubIdentity identity, OnNote on_note,
           HubLimits limits = {});
  AgentHub(const AgentHub&) = delete;
  AgentHub& operator=(const AgentHub&) = delete;
  /// Agents get what was announced, within a second.
  ~AgentHub();

  /// Readable when serve() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  /// When serve() is due though nothing is readable.
  [[nodiscard]] Deadline wake_at() const;
  /// Does not block; adds `record` and `gone`.
  void serve(std::vector<BoardEvent>& events);
  void announce(const std::string& state);

  [[nodiscard]] std::size_t connection_count() const { return peers_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  using PeerId = std::uint64_t;
  struct Peer {
    ControlLink link;
    std::string agent{};  // empty until it has joined
    Clock::time_point heard = Clock::now();
    bool state_waits = false;  // the newest is to be sent
    std::string answer{};      // number of the newest record, to be answered
    bool watches_output = false;
  };
  struct Member {
    PeerId peer = 0;  // 0 = the connection broke
    Clock::time_point gone_at{};
  };

  void accept_new();
  void admit(Fd socket);
  void drop_oldest_stranger();
  void listen_for(bool connections);
  void converse(PeerId id, Peer& peer, std::vector<BoardEvent>& events);
  void take(PeerId id, Peer& peer, Frame& frame, std::vector<BoardEvent>& events);
  void join(PeerId id, Peer& peer, const std::string& agent);
  /// Sends what waits to a peer that has read everything before.
  void feed(PeerId id, Peer& peer);
  void watch(PeerId id, Peer& peer);
  void drop(PeerId id);
  void tend(Clock::time_point now, std::vector<BoardEvent>& events);
  void tell_refusal(const ControlLink& link);

  Listener listener_;
  JobKey key_;
  HubIdentity identity_;
  NoteLimit notes_;
  HubLimits limits_;
  Fd epoll_;
  std::unordered_map<PeerId, Peer> peers_;
  std::deque<std::pair<PeerId, Clock::time_point>> arrivals_;  // until proved or late, oldest first
  std::map<std::string, Member> members_;                      // by agent
  std::string state_;
  PeerId next_id_ = 1;
  Clock::time_point accept_again_{};  // not before: descriptors ran out
  bool accepts_ = true;
  Clock::time_point silence_check_{};
};

}  // namespace lockstep::rendezvous
