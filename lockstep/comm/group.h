// The ranks that reduce, gather and wait together: over shared memory, over c10d's Gloo, or over
// shared memory inside hosts and Gloo between them. Every wait has a deadline.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::comm {

class FlightRecorder;

enum class ReduceOp : std::uint8_t { sum, min, max };

/// How the terms of a sum are associated.
enum class Order : std::uint8_t {
  any,   // the backend's own: fastest
  tree,  // balanced binary tree over the group's ranks: bits do not depend on how terms are spread
};

/// A collective in flight. wait() must be called once before the buffers are read. One that is
/// dropped takes place all the same, and its tensors live until then; what goes wrong shows in the
/// next collective of the group.
class Work {
 public:
  virtual ~Work() = default;
  /// \throws PeerLost naming the collective, this rank and the deadline when a rank does not
  /// answer. A group that goes with collectives in flight leaves the others without its part:
  /// wait() then returns for those that ended, and throws PeerLost for the rest.
  virtual void wait() = 0;
  [[nodiscard]] virtual bool done() = 0;
  /// When it ended here, whether or not anybody waited for it then (comm::monotonic_ns). 0 = not
  /// known, or it has not.
  [[nodiscard]] virtual std::int64_t ended_ns() const { return 0; }
};

class Group {
 public:
  virtual ~Group() = default;
  [[nodiscard]] int rank() const { return rank_; }  // within the group
  [[nodiscard]] int size() const { return size_; }
  /// "shm", "gloo", "shm+gloo", "nccl", "fake"
  [[nodiscard]] const std::string& backend() const { return backend_; }
  [[nodiscard]] at::Device device() const { return device_; }  // where all its tensors lie

  /// Replaces `tensor` on every rank by its reduction over the group. Collective, asynchronous.
  /// \param tensor contiguous; same shape and dtype on every rank; changed in place.
  /// Order::tree needs ReduceOp::sum and a size that is a power of two.
  /// This and all collectives \throw Bug when an argument breaks its contract, PeerLost when the
  /// group is over, Disagreement when ranks entered different collectives.
  [[nodiscard]] std::unique_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                                 Order order = Order::any);
  /// Collective. Copies `tensor` of `root` to every rank.
  [[nodiscard]] std::unique_ptr<Work> broadcast(at::Tensor tensor, int root);
  /// Collective. \param output [n, *input.shape], contiguous.
  [[nodiscard]] std::unique_ptr<Work> all_gather(at::Tensor output, at::Tensor input);
  /// Collective. Part r of the reduction over the group goes to rank r.
  /// \param output [count...], contiguous. \param input [n, count...], contiguous; the same shape
  /// and dtype on every rank.
  [[nodiscard]] std::unique_ptr<Work> reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op);
  /// Collective, in the order of the group's other collectives. A zeroed tensor [count] on every
  /// rank, in memory that all ranks of the group reach where there is such: all_reduce of it, or of
  /// a contiguous part, then needs no copies if all ranks pass parts of the same array. Elsewhere
  /// plain memory. May outlive the group. \throws as the collectives do, Disagreement when ranks
  /// ask for different sizes.
  [[nodiscard]] at::Tensor symmetric_zeros(std::int64_t count, at::ScalarType dtype);
  /// Collective. Returns when every rank has come.
  void barrier() { do_barrier(); }

  /// Payload handed to collectives by this rank so far: tensor bytes, once per call.
  [[nodiscard]] std::int64_t payload_bytes() const { return payload_bytes_; }

 protected:
  Group(int rank, int size, std::string backend, at::Device device = at::kCPU);
  /// A collective that is over when it is issued.
  [[nodiscard]] static std::unique_ptr<Work> finished_work();

 private:
  // What a backend does. The arguments were checked, and no tensor is empty.
  virtual std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) = 0;
  virtual std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) = 0;
  virtual std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) = 0;
  virtual std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op) = 0;
  virtual void do_barrier() = 0;
  virtual at::Tensor make_symmetric(std::int64_t count, at::ScalarType dtype);

  const int rank_;
  const int size_;
  const std::string backend_;
  const at::Device device_;
  std::int64_t payload_bytes_ = 0;
};

/// A small value that rank `root` has and all others want. Collective.
[[nodiscard]] std::string broadcast_text(Group& group, const std::string& text, int root = 0);

enum class Backend : std::uint8_t {
  automatic,  // shm on one host; shm inside hosts and gloo between them; gloo
  shm,
  gloo,
  nccl,  // GPUs, one a rank; in builds with CUDA
};

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string store_host = "127.0.0.1";  // or "unix:<path>"
  int store_port = 0;
  bool host_store = false;  // this rank serves the store (rank 0 without a launcher)
  Backend backend = Backend::automatic;
  std::string name = "world";  // prefix of the store keys; unique per group and generation
  std::string host_id;         // equal on the ranks of one host; empty = host_identity()
  std::string address;  // of this machine, for the ranks of others; empty = by route to the store
  std::chrono::milliseconds join_deadline{std::chrono::seconds(120)};
  std::chrono::milliseconds deadline{std::chrono::seconds(120)};  // of each collective
  std::shared_ptr<FlightRecorder> flight{};  // of this process; null = the group has its own
};

/// A group by options.backend; size 1 needs no store and no network. Collective.
/// Over NCCL wait() returns once the data is in the GPU's memory; a collective follows what its
/// caller put on the current stream before it.
/// Over shared memory sums are trees over the ranks, whatever the order asked for.
/// \throws PeerLost (a rank never came: names the missing ranks), EnvironmentFault (store
/// unreachable, no room in /dev/shm, no GPU for NCCL or a build without it).
[[nodiscard]] std::unique_ptr<Group> make_group(const GroupOptions& options);
[[nodiscard]] std::unique_ptr<Group> make_gloo_group(GroupOptions options);
[[nodiscard]] std::unique_ptr<Group> make_shm_group(GroupOptions options);

/// A group whose peers all hold the same values as this rank: dry runs at any size, and tests.
[[nodiscard]] std::unique_ptr<Group> make_fake_group(int rank, int size);

}  // namespace lockstep::comm
