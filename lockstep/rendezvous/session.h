// A job's membership from the view of one launcher: rounds come, ranks run, ends are reported.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/round.h"

namespace lockstep::rendezvous {

/// How the ranks of this host ended in a round.
struct RoundEnd {
  enum class Kind {
    succeeded,
    failed,
    stopped_on_request,  // this launcher was asked to stop, or ranks left with exit 75 by
                         // themselves
    interrupted,         // stopped because interrupt_fd() was readable, and for nothing else
  };
  Kind kind = Kind::succeeded;
  Failure failure;                    // of failed
  std::vector<Failure> consequences;  // of failed: other ranks of this host
  bool saved = false;      // of stopped_on_request and interrupted: the ranks left with exit 75
  std::int64_t step = -1;  // the last one that ranks reported; -1 = they report none
};

/// One object for the life of a launcher. Calls come from one thread; signs of life go on beside.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  /// Waits for the next round, or the job's end. \param stop_fd readable = somebody asked to stop:
  /// the agent leaves. Tells on_waiting (of the settings) who is missing every five seconds.
  /// \throws EnvironmentFault, UsageError when this agent cannot or may not take part.
  [[nodiscard]] virtual std::variant<Round, Verdict> next(int stop_fd) = 0;

  /// Readable while the round handed out is over: its ranks are to be stopped, then report().
  [[nodiscard]] virtual int interrupt_fd() const = 0;
  /// Why, for people; valid while interrupt_fd() is readable.
  [[nodiscard]] virtual std::string interrupt_reason() const = 0;
  /// Whether ranks must go at once: this host may no longer be part of the job.
  [[nodiscard]] virtual bool is_fenced() const = 0;
  /// Whether nothing has failed, so that ranks may take their time to save.
  [[nodiscard]] virtual bool may_save() const { return false; }
  /// When this host's ranks must be dead unless this has moved on by then: what the guardian is
  /// told, since the launcher itself may be stopped. Any thread may ask.
  [[nodiscard]] virtual Deadline fence_at() const { return Deadline::max(); }

  /// This launcher was asked to stop and has told its ranks; report() will follow. Lets other hosts
  /// stop theirs meanwhile.
  virtual void leaving() {}
  /// A rank has failed; the others of this host are being stopped, report() will follow. Lets other
  /// hosts stop theirs meanwhile.
  virtual void failing(const Failure& /*failure*/) {}

  /// The ranks of this host have ended, all of them.
  virtual void report(const RoundEnd& end) = 0;
};

}  // namespace lockstep::rendezvous
