// What agents of a job read and write in common: each its own record, the leader the job's state.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"

namespace lockstep::rendezvous {

/// What a board has to tell. Records and states are opaque to it (rendezvous/records.h).
struct BoardEvent {
  enum class Kind : std::uint8_t {
    record,       // an agent's record has come or changed, its own too; leader only
    gone,         // an agent has left, or its connection or lease ended a second ago and did not
                  // come back; only its silence proves that its ranks have ended; leader only
    state,        // what the leader announced; the leader itself is told when it stands, and acts
                  // on it only then
    leading,      // this agent leads from now on; `bytes` = the last state announced, if any
    listed,       // of a leader: the records of all agents that there are have been told. Of every
                  // other agent the lease has ended, so its ranks have, too
    not_leading,  // somebody else does, or nobody knows
    heard,        // the leader, or the service in its place, has answered a record of this agent
                  // (the leader's own, too); states announced before the answer are told before it
  };
  Kind kind = Kind::heard;
  std::string agent;  // id, of record and gone
  std::string bytes;
  Deadline at{};  // of heard: when the record that is answered was published; the leader heard of
                  // this agent no earlier. Of leading: until when an agent that led before may have
                  // answered others
  bool proven = false;  // of gone: the lease that ended outlives the fence time counted from `at`
                        // of every record answered under it, so the agent's ranks have surely ended
};

/// One thread uses it, and is in wait() nearly always: there a leader also serves the others.
/// Implementations: TcpBoard (the leader is the agent that could bind the endpoint), EtcdBoard (the
/// leader holds a lease, another takes over when it ends).
class Board {
 public:
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  virtual ~Board() = default;

  /// Replaces this agent's record; also its sign of life.
  virtual void publish(const std::string& record) = 0;
  /// Leader only. Refused in silence when this agent leads no more (an event says so).
  virtual void announce(const std::string& state) = 0;
  /// Leader only: the job has ended and none of its ranks runs; what it would leave behind may go.
  virtual void conclude() {}
  /// Waits until something is to be told, `wake_fd` is readable, or `until`.
  /// \throws EnvironmentFault: the endpoint belongs to another program, refuses, cannot be reached
  /// at all or does not share the job's secret.
  [[nodiscard]] virtual std::vector<BoardEvent> wait(Deadline until, int wake_fd) = 0;
};

}  // namespace lockstep::rendezvous
