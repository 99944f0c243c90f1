// A group whose rank finds no memory for entering one of its sums.
#pragma once
#include <new>
#include <utility>

#include "lockstep/comm/group.h"

namespace lockstep::test {

/// Passes everything on to another group of the same ranks, which outlives it.
class ShortOfMemory : public comm::Group {
 public:
  explicit ShortOfMemory(comm::Group& group)
      : Group(group.rank(), group.size(), group.backend(), group.device()), group_(group) {}

  /// The next `count` sums are entered, the one behind them throws std::bad_alloc once, here only.
  void fail_after(int count) { left_ = count; }
  [[nodiscard]] bool has_failed() const { return left_ < 0; }

 private:
  std::unique_ptr<comm::Work> start_all_reduce(at::Tensor tensor, comm::ReduceOp op,
                                               comm::Order order) override {
    if (left_ >= 0 && left_-- == 0) throw std::bad_alloc();
    return group_.all_reduce(std::move(tensor), op, order);
  }
  std::unique_ptr<comm::Work> start_broadcast(at::Tensor tensor, int root) override {
    return group_.broadcast(std::move(tensor), root);
  }
  std::unique_ptr<comm::Work> start_all_gather(at::Tensor output, at::Tensor input) override {
    return group_.all_gather(std::move(output), std::move(input));
  }
  std::unique_ptr<comm::Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                   comm::ReduceOp op) override {
    return group_.reduce_scatter(std::move(output), std::move(input), op);
  }
  void do_barrier() override { group_.barrier(); }
  at::Tensor make_symmetric(std::int64_t count, at::ScalarType dtype) override {
    return group_.symmetric_zeros(count, dtype);
  }

  comm::Group& group_;
  int left_ = -1;  // sums before the one that fails; below 0 = none does
};

}  // namespace lockstep::test
