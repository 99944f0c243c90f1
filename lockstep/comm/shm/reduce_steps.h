// Large reductions: the buffer is cut into one block a rank, each block into pieces. In step k
// every rank stages piece k of the others' blocks, adds up piece k of its own, and reads piece k of
// the others' results; the three run a few steps apart, so that ranks hardly wait for each other.
#pragma once
#include <vector>

#include "lockstep/comm/shm/operation.h"
#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {

/// all_reduce, reduce and reduce_scatter.
class ReduceSteps : public Operation {
 public:
  ReduceSteps(const Segment& segment, RingWriter& writer, Request request);

 protected:
  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override { return read_ == steps_; }
  void leave(Progress& progress) override;
  [[nodiscard]] bool is_through(int other) const override;

  const ReduceFunction function_;
  std::vector<const void*> terms_;  // one a rank

 private:
  struct Slice {
    std::size_t offset_bytes = 0;  // in the buffer
    std::size_t bytes = 0;         // 0 behind the end
  };

  [[nodiscard]] Slice slice(int block, std::uint64_t step) const;
  bool stage();
  bool reduce();
  bool read();
  void add_up(const Slice& mine, std::uint64_t step);

  std::uint64_t first_ = 0;  // step of the rings at which this operation began
  std::uint64_t steps_ = 0;
  std::uint64_t staged_ = 0;  // steps done
  std::uint64_t reduced_ = 0;
  std::uint64_t read_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  bool gathers_ = false;  // this rank needs the others' results
  bool keeps_ = false;    // and its own
};

}  // namespace lockstep::comm::shm
