// A group that needs nobody: its peers hold what this rank holds.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// A collective that is over when it is issued.
[[nodiscard]] std::unique_ptr<Work> finished_work();

class InstantGroup : public Group {
 public:
  InstantGroup(int rank, int size, std::string backend)
      : rank_(rank), size_(size), backend_(std::move(backend)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string backend() const override { return backend_; }
  [[nodiscard]] std::unique_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                                 Order order) override;
  [[nodiscard]] std::unique_ptr<Work> broadcast(at::Tensor tensor, int root) override;
  [[nodiscard]] std::unique_ptr<Work> all_gather(at::Tensor output, at::Tensor input) override;
  [[nodiscard]] std::unique_ptr<Work> reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op) override;
  void barrier() override {}
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_bytes_; }

 private:
  const int rank_;
  const int size_;
  const std::string backend_;
  std::int64_t payload_bytes_ = 0;
};

}  // namespace lockstep::comm
