// all_reduce of symmetric memory, where it lies: each rank adds up its share of the elements over
// the arrays of all ranks and writes the sum into each of them. Nothing is staged. Where some
// rank's buffer lies elsewhere, all go through the rings.
#pragma once
#include <vector>

#include "lockstep/comm/shm/reduce_steps.h"

namespace lockstep::comm::shm {

class SymmetricReduce : public ReduceSteps {
 public:
  /// \pre request.symmetric holds request.input, which is request.output.
  SymmetricReduce(const Segment& segment, RingWriter& writer, Request request);

 private:
  enum class Way : std::uint8_t { unknown, in_place, in_steps };

  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override;
  void leave(Progress& progress) override;
  [[nodiscard]] bool is_through(int other) const override;

  [[nodiscard]] Way find_arrays();
  bool move_in_place();
  void add_up_piece();

  Way way_ = Way::unknown;
  std::uint64_t step_ = 0;  // of the rings: the one this operation stands for
  std::size_t next_ = 0;    // byte of the buffer
  std::size_t end_ = 0;     // of this rank's share
  bool is_published_ = false;
  std::vector<std::byte*> arrays_;  // where each rank's buffer begins
};

}  // namespace lockstep::comm::shm
