// Collectives among the ranks of one host, one after the other, each over when the call returns.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {

/// What the ranks of a host show each other before a collective of the group.
struct Declaration {
  shm::Fingerprint whole;
  std::array<char, shm::kSiteBytes> site;  // ends with a zero
};

/// Ranks are local ones, but messages name ranks of the group. Tensors are flat and contiguous. One
/// thread uses it. Every call is collective on the host and throws PeerLost and Disagreement. A
/// rank alone on its host has nobody to wait for.
class HostLink {
 public:
  /// Collective on the host. \param options of the group. \param host what messages call the host.
  HostLink(c10d::Store& store, const GroupOptions& options, const HostLayout& layout,
           std::string host);

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

  /// Call it before those that make up a collective of the group: returns when all ranks of the
  /// host are about to carry out the same. Until the next one a rank of this host may be with other
  /// hosts while others wait for it here: it gives up before they do.
  void declare(const shm::Fingerprint& whole);

  /// The reduction of all inputs [count] goes to `root`; elsewhere `output` stays as it is.
  void reduce(const at::Tensor& output, const at::Tensor& input, ReduceOp op, int root);
  /// \param output [count]. \param input [size * count].
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op);
  /// \param output [size * count]. \param input [count], or this rank's part of the output.
  void all_gather(const at::Tensor& output, const at::Tensor& input);
  void broadcast(const at::Tensor& tensor, int root);
  void barrier();

  /// Thread-safe. Every call on every rank of the host fails from now on, for `reason`, which names
  /// ranks of the group; the first reason stands.
  void abort(const std::string& reason, shm::AbortKind kind);

 private:
  void run(shm::CollectiveKind kind, const at::Tensor& output, const at::Tensor& input,
           std::int64_t count);
  void run(shm::Request request, std::chrono::milliseconds deadline);
  [[nodiscard]] std::string cause_in(const std::string& what) const;

  const std::chrono::milliseconds deadline_;
  const std::vector<int> ranks_;  // of the host, in the group's numbers
  const std::string host_;
  std::uint64_t declared_ = 0;
  Declaration own_{};
  std::vector<Declaration> all_;   // one a rank
  std::unique_ptr<ShmLink> link_;  // null where this rank is alone
};

}  // namespace lockstep::comm
