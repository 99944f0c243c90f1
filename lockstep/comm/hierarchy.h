// Collectives of ranks on several hosts: shared memory inside each, Gloo between them.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/gloo_part.h"
#include "lockstep/comm/host_blame.h"
#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/host_link.h"
#include "lockstep/comm/rank_places.h"
#include "lockstep/comm/shm/fingerprint.h"

namespace lockstep::comm {

/// Where all hosts have equally many ranks, each rank carries its share of the bytes between hosts,
/// to those with the same local number (its lane); else the first rank of each host carries all.
///
/// Every call is collective over the group and over when it returns. Before a rank is handed a
/// result it knows that all ranks entered the same: those of a host show each other what they
/// enter, and who carries shows it to the other hosts.
///
/// A call that throws (PeerLost, Disagreement: their texts name ranks of the group) has ended the
/// group on all ranks: call close(). One thread uses it. Tensors are contiguous and need no
/// gradient.
class Hierarchy {
 public:
  /// Collective. \param store must be no other thread's.
  Hierarchy(const GroupOptions& options, c10::intrusive_ptr<c10d::Store> store,
            std::vector<RankPlace> places);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;
  ~Hierarchy() { close(); }

  void all_reduce(const at::Tensor& flat, ReduceOp op, Order order);
  /// \param output [count]. \param input [n, count].
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op);
  /// \param output [n, count]. \param input [count].
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void broadcast(const at::Tensor& flat, int root);
  void barrier();

  /// Ends the group on all ranks; the first reason stands. Thread-safe. \param cause names ranks of
  /// the group.
  void end(const control::End& cause);
  /// Closes the connections to other hosts.
  void close();

 private:
  struct Part;
  using Action = std::function<void()>;

  /// Carries out one collective, once all ranks of this host are about to enter the same.
  void run(shm::CollectiveKind kind, const at::Tensor& payload, std::int64_t count,
           const Action& action);
  void attempt(const Action& action);
  void declare(shm::CollectiveKind kind, const at::Tensor& payload, std::int64_t count);
  void meet();

  void sum(const at::Tensor& flat, ReduceOp op, Order order);
  [[nodiscard]] bool nests_tree(const at::Tensor& tensor) const;
  [[nodiscard]] bool carries() const { return between_ != nullptr; }
  void connect_all();
  [[nodiscard]] Part reduce_inside(const at::Tensor& tensor, ReduceOp op, Order order);
  void reduce_to_shares(Part& part, ReduceOp op);
  void spread_inside(Part& part);
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& all_ranks, int host) const;
  void scatter_even(const at::Tensor& output, const at::Tensor& input, ReduceOp op);
  void gather_even(const at::Tensor& output, const at::Tensor& input);
  void gather_by_first_ranks(const at::Tensor& output, const at::Tensor& input);
  void spread(const at::Tensor& flat, int root);

  void connect(std::unique_ptr<GlooPart>& part, const std::string& name,
               const std::vector<int>& ranks, Compared compared);
  /// Runs `action`, which waits for `ranks`: they stand for rank 0, 1, ... in what it throws.
  void across(const Action& action, const std::vector<int>& ranks) const;
  void across(const Action& action) const { across(action, lane_); }
  const GroupOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::vector<RankPlace> places_;
  const HostLayout layout_;
  const std::vector<int> lane_;  // ranks of the group that between_ joins
  const std::vector<int> all_;
  const HostBlame blame_;
  HostLink inside_;

  std::mutex parts_;                   // held to set the following two, and to use them in end()
  std::unique_ptr<GlooPart> between_;  // one rank of each host; null on ranks that carry nothing
  std::unique_ptr<GlooPart> flat_;     // all ranks; made when a sum needs it
};

}  // namespace lockstep::comm
