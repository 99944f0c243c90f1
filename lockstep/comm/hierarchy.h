// Collectives of ranks on several hosts: shared memory inside each, Gloo between them.
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/host_link.h"
#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {

/// Where all hosts have equally many ranks, each rank carries its share of the bytes between hosts,
/// to those with the same local number (its lane); else the first rank of each host carries all.
///
/// Every call is collective over the group, over when it returns, and throws PeerLost or
/// Disagreement, whose texts name ranks of the group; then the group is over: call close(). One
/// thread uses it. Tensors are contiguous and need no gradient.
class Hierarchy {
 public:
  /// Collective. \param store must be no other thread's.
  Hierarchy(const GroupOptions& options, c10::intrusive_ptr<c10d::Store> store,
            std::vector<RankPlace> places);

  void all_reduce(const at::Tensor& flat, ReduceOp op, Order order);
  /// \param output [count]. \param input [n, count].
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op);
  /// \param output [n, count]. \param input [count].
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void broadcast(const at::Tensor& flat, int root);
  void barrier();

  /// Tells the other ranks of this host why the group is over, and leaves word for those of other
  /// hosts. Thread-safe.
  void abort(const std::string& reason, shm::AbortKind kind);
  /// Closes the connections to other hosts, whose ranks notice it and look for word.
  void close();

 private:
  struct Part;

  [[nodiscard]] bool nests_tree(const at::Tensor& tensor) const;
  [[nodiscard]] bool carries() const { return between_ != nullptr; }
  void connect_all();
  [[nodiscard]] Part reduce_inside(const at::Tensor& tensor, ReduceOp op, Order order);
  void reduce_to_shares(Part& part, ReduceOp op);
  void spread_inside(Part& part);
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& all_ranks, int host) const;
  void gather_by_first_ranks(const at::Tensor& output, const at::Tensor& input);

  /// Runs `action`, which waits for `ranks`: they stand for rank 0, 1, ... in what it throws.
  void across(const std::function<void()>& action, const std::vector<int>& ranks);
  void across(const std::function<void()>& action) { across(action, lane_); }
  [[nodiscard]] std::string lost_text(const std::string& cause) const;
  [[nodiscard]] bool speaks_of(const std::string& cause, int host) const;
  [[nodiscard]] std::string host_text(int host) const;

  const GroupOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::vector<RankPlace> places_;
  const HostLayout layout_;
  const std::vector<int> lane_;  // ranks of the group that between_ joins
  HostLink inside_;
  std::unique_ptr<Group> between_;  // one rank of each host; null on ranks that carry nothing
  std::unique_ptr<Group> flat_;     // all ranks; made when a sum needs it
  std::atomic<bool> others_lost_{false};
};

}  // namespace lockstep::comm
