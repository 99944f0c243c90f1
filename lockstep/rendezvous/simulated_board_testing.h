// What a simulated board needs of the agents, and they of it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous::testing {

using RecordPointer = std::shared_ptr<const Record>;
using StatePointer = std::shared_ptr<const JobState>;

/// What a board needs of the agents; agents are numbered in the order in which they start.
class Agents {
 public:
  virtual ~Agents() = default;
  [[nodiscard]] virtual int host_of(int agent) const = 0;
  [[nodiscard]] virtual bool is_alive(int agent) const = 0;  // its process is there
  [[nodiscard]] virtual bool is_host_up(int host) const = 0;
  [[nodiscard]] virtual const std::string& id_of(int agent) const = 0;
  /// By the clock of its host.
  [[nodiscard]] virtual double now_of(int agent) const = 0;
  /// Runs `action` as the agent's process: later, when it is stopped.
  virtual void run_as(int agent, std::function<void()> action) = 0;
  /// Only in run_as().
  virtual void tell(int agent, const NodeInput& input) = 0;
  /// The board's wait() throws: the agent ends. Only in run_as().
  virtual void fail(int agent, const std::string& because) = 0;
};

class SimulatedBoard {
 public:
  virtual ~SimulatedBoard() = default;
  /// The agent's process begins to wait at the board.
  virtual void come(int agent) = 0;
  /// \param published_s by the agent's clock.
  virtual void publish(int agent, const RecordPointer& record, double published_s) = 0;
  virtual void announce(int agent, const StatePointer& state) = 0;
  /// The agent ends by itself.
  virtual void leave(int agent) = 0;
  /// The agent's process was killed, or its host, from where nothing more is sent.
  virtual void die(int agent) = 0;
  /// What it kept is lost.
  virtual void forget() {}
  /// Which start of the job's board the agent follows: with another one, it is another job. Ranks
  /// of two jobs must not live at the same time either.
  [[nodiscard]] virtual int lineage(int agent) = 0;
};

}  // namespace lockstep::rendezvous::testing
