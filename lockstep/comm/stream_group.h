// Group over a library that may block without end and moves data on streams: NCCL. Control
// connections compare what the ranks enter and watch over them, as over Gloo.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "lockstep/comm/call_thread.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/stream_tree.h"

namespace lockstep::comm {

/// A collective in flight.
class StreamCall : public Call {
 public:
  /// What the caller does next comes after it. \pre it has ended well.
  virtual void finish() = 0;
};

/// What moves the data of one rank.
class StreamLibrary : public CallLibrary {
 public:
  /// Issues a collective, on the thread of the calls. `after` makes what follows come after a part
  /// of it; everything that was issued has gone through `after` when this returns. \returns the
  /// last part.
  using Issue =
      std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend& backend, const After& after)>;

  /// Of the caller's thread; comes after what that has issued on its own stream.
  /// \param tensors that the collective reads and writes: they live until it is over.
  [[nodiscard]] virtual std::shared_ptr<StreamCall> make_call(Issue issue,
                                                              std::vector<at::Tensor> tensors) = 0;
  [[nodiscard]] virtual at::Device device() const = 0;
  [[nodiscard]] virtual std::string backend() const = 0;  // Group::backend()
  [[nodiscard]] virtual std::string advice() const = 0;   // when ranks cannot be connected
};

/// Collective. \param options address: of this machine, that the other ranks reach. \param store of
/// the meeting; its server is kept. \throws PeerLost (LS-4005) when a rank cannot be connected.
[[nodiscard]] std::unique_ptr<Group> make_stream_group(const GroupOptions& options, Meeting meeting,
                                                       std::shared_ptr<StreamLibrary> library);

// What CheckedWork (checked_work.h) asks of what is in flight.
inline void on_end(const std::shared_ptr<StreamCall>& call, std::function<void(bool ok)> listener) {
  call->on_end(std::move(listener));
}
inline void finish(const std::shared_ptr<StreamCall>& call) { call->finish(); }
/// \throws std::runtime_error with the cause on one line.
void rethrow(const std::shared_ptr<StreamCall>& call);

}  // namespace lockstep::comm
