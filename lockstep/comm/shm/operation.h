// One collective in flight: a state machine that is driven without ever blocking.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/shm/completion.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm/ring_writer.h"
#include "lockstep/comm/shm/segment.h"
#include "lockstep/comm/shm/symmetric_memory.h"

namespace lockstep::comm::shm {

/// What a rank asks for. Buffers are contiguous and stay valid until the operation is done.
struct Request {
  CollectiveKind kind;
  const void* input = nullptr;  // this rank's contribution; null where it has none
  void* output = nullptr;       // the result; may be `input` where both have one size
  /// Elements of the whole buffer (all_reduce, reduce, broadcast), else of one rank's part.
  std::size_t count = 0;
  std::vector<std::size_t> send_counts;     // all_to_all: elements to each rank, packed in order
  std::vector<std::size_t> receive_counts;  // and from each
  std::string site;                         // call site: "trainer.cpp:88", "bucket 4"
  Ticket ticket;                            // of the flight record
  /// Also bounds it while nobody waits; 0 = whoever waits brings a deadline.
  std::chrono::milliseconds deadline{0};
  std::shared_ptr<const void> owner;                 // of the buffers: kept until it is done
  std::shared_ptr<const SymmetricMemory> symmetric;  // that both buffers lie in; null = elsewhere
  std::uint64_t symmetric_number = 0;  // of that memory, the same on all ranks; 0 = elsewhere
};

/// What the operations of one group share, each starting where the one before ended.
struct Progress {
  std::uint64_t sequence = 0;  // collectives entered
  std::uint64_t steps = 0;     // of the rings, equal on all ranks between two operations
};

class Operation : public Completion {
 public:
  Operation(const Segment& segment, RingWriter& writer, Request request);

  /// Enters the collective: others see it from now on.
  void start(Progress& progress);
  /// Does what can be done now; false = nothing. Sets done(). \throws Disagreement.
  [[nodiscard]] bool advance(Progress& progress);

  [[nodiscard]] bool started() const { return sequence_ != 0; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] std::string title() const override;
  /// "rank 1 has not entered it", "ranks 0 and 2 stopped within it".
  [[nodiscard]] std::string missing() const override;
  [[nodiscard]] int deserter() const override;

 protected:
  /// Puts the payload where others read it; `slot` is this rank's.
  virtual void enter(Slot& slot, const Progress& progress) = 0;
  /// One look at what came; true = something moved.
  virtual bool move() = 0;
  virtual bool finished() const = 0;
  virtual void leave(Progress& /*progress*/) {}
  /// Whether a rank that has entered has done all that this one needs of it.
  [[nodiscard]] virtual bool is_through(int other) const = 0;

  [[nodiscard]] bool met() const { return met_ == ranks(); }
  [[nodiscard]] int rank() const { return segment_.rank(); }
  [[nodiscard]] int ranks() const { return segment_.ranks(); }
  [[nodiscard]] std::size_t element_bytes() const { return bytes_of(request_.kind.type); }
  [[nodiscard]] const Slot& slot_of(int rank) const {
    return segment_.block(rank).slots[sequence_ & 1U];
  }

  /// Whether `counter` of every other rank has come to `value`.
  [[nodiscard]] bool all_at_least(Counter RankBlock::*counter, std::uint64_t value) const;
  /// Whether the place of `step` in a ring may be written: `counter` tells that every other rank is
  /// done with the step that lay there before.
  [[nodiscard]] bool is_free(Counter RankBlock::*counter, std::uint64_t step) const;

  const Segment& segment_;
  RingWriter& writer_;
  const Request request_;

 private:
  bool meet();
  void compare(int other);

  const Fingerprint fingerprint_;
  std::uint64_t sequence_ = 0;
  int met_ = 0;  // ranks below this one have been seen to enter the same collective
};

struct Gathering;

/// The way that suits the request: at once for what is small, else in steps through the rings.
/// \param writer, gathering of this rank, for all its operations.
[[nodiscard]] std::shared_ptr<Operation> make_operation(const Segment& segment, RingWriter& writer,
                                                        Gathering& gathering, Request request);

}  // namespace lockstep::comm::shm
