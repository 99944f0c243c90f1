// all_reduce of symmetric memory, where it lies: each rank adds up its share of the elements over
// the arrays of all ranks and writes the sum into each of them. Nothing is staged.
#pragma once
#include <vector>

#include "lockstep/comm/shm/operation.h"
#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {

class SymmetricReduce : public Operation {
 public:
  /// \pre request.symmetric holds request.input, which is request.output.
  SymmetricReduce(const Segment& segment, RingWriter& writer, Request request);

 private:
  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override;
  void leave(Progress& progress) override;
  [[nodiscard]] bool is_through(int other) const override;

  void find_arrays();
  void add_up_piece();

  std::uint64_t step_ = 0;  // of the rings: the one this operation stands for
  std::size_t next_ = 0;    // byte of the buffer
  std::size_t end_ = 0;     // of this rank's share
  bool is_published_ = false;
  ReduceFunction function_;
  std::vector<std::byte*> arrays_;  // where each rank's buffer begins
  std::vector<const void*> terms_;
};

}  // namespace lockstep::comm::shm
