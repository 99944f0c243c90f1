// Module buffers under data parallelism: each micro-batch starts a step from the same values;
// afterwards floating ones are the mean over all micro-batches of all ranks, integer ones the
// maximum.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/model/model.h"

namespace lockstep::parallel {

class ModuleBuffers {
 public:
  explicit ModuleBuffers(const std::vector<model::NamedTensor>& buffers);

  [[nodiscard]] std::int64_t float_count() const { return float_count_; }
  [[nodiscard]] bool has_integers() const { return !integers_.empty(); }

  void begin_step();         // remembers the values that every micro-batch starts from
  void begin_micro_batch();  // goes back to them
  void read(std::span<float> into) const;  // copies the floating buffers, in order
  void end_micro_batch();                  // keeps the maximum of the integer ones
  /// Collective: the maximum over ranks; null without integer buffers or with one rank.
  [[nodiscard]] std::unique_ptr<comm::Work> reduce_integers(comm::Group& group);
  /// \param sums floating buffers summed over `terms` micro-batches.
  void finish_step(std::span<const float> sums, std::int64_t terms);
  /// Copies of all values as they are now, and back from such copies.
  [[nodiscard]] std::vector<at::Tensor> copy() const;
  void write(const std::vector<at::Tensor>& copies);
  /// Collective: every rank takes rank 0's.
  void broadcast(comm::Group& group);

 private:
  std::vector<at::Tensor> floats_;
  std::vector<at::Tensor> integers_;
  std::int64_t float_count_ = 0;
  std::vector<at::Tensor> start_floats_;
  std::vector<at::Tensor> start_integers_;
  at::Tensor integer_max_;  // int64, one element per integer buffer element
};

}  // namespace lockstep::parallel
