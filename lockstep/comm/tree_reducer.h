// Order::tree over a backend with an order of its own: exchange pieces, add them here, gather.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::comm {

/// One tree all_reduce in flight.
class TreeWork {
 public:
  TreeWork(at::Tensor tensor, std::uint32_t tag) : tensor_(std::move(tensor)), tag_(tag) {}
  /// Puts the result into the tensor. \pre it has ended well.
  void finish();
  /// \throws what the backend threw. \pre it has ended badly.
  void rethrow();
  /// Calls `listener` once, from any thread, when the last exchange ends well or badly.
  void on_end(std::function<void(bool ok)> listener);

 private:
  friend class TreeReducer;
  void set_last(c10::intrusive_ptr<c10d::Work> work);
  void fail(std::exception_ptr error);
  static void follow(const c10::intrusive_ptr<c10d::Work>& last,
                     std::function<void(bool ok)> listener);

  at::Tensor tensor_;  // [count], where the sum goes
  const std::uint32_t tag_;
  at::Tensor outgoing_;  // [n, piece]: the tensor itself, or a padded copy
  at::Tensor terms_;     // [n, piece]: this rank's piece as every rank has it
  c10::intrusive_ptr<c10d::Work> exchange_;

  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Work> last_;  // set once the last collective is issued
  std::exception_ptr error_;
  std::function<void(bool ok)> listener_;
  bool gathered_whole_ = false;  // terms_ holds all ranks' tensors: the sum is left to wait()
};

/// Works through all_reduces in the order they were started, on a thread of its own so that they
/// progress while the caller computes. The exchanges go over one backend and the gathers over
/// another: on each, every rank issues in the same order, whatever the timing.
class TreeReducer {
 public:
  TreeReducer(c10::intrusive_ptr<c10d::Backend> exchange, c10::intrusive_ptr<c10d::Backend> gather,
              std::chrono::milliseconds deadline);
  TreeReducer(const TreeReducer&) = delete;
  TreeReducer& operator=(const TreeReducer&) = delete;
  ~TreeReducer();

  /// Collective. \param flat [count], contiguous; as tree_sum_rows() takes them.
  /// \param tag of its exchanges: see tag_next().
  [[nodiscard]] std::shared_ptr<TreeWork> start(const at::Tensor& flat, std::uint32_t tag);

 private:
  void start_small(TreeWork& work);
  void start_large(TreeWork& work);
  void run();
  void add_and_gather(TreeWork& work);

  const c10::intrusive_ptr<c10d::Backend> exchange_;
  const c10::intrusive_ptr<c10d::Backend> gather_;
  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<TreeWork>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
