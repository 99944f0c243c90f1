// Collectives whose contributions fit into the buffers for small messages.
#pragma once
#include "lockstep/comm/shm/operation.h"

namespace lockstep::comm::shm {

/// The most that one rank contributes; equal on all ranks.
[[nodiscard]] std::size_t direct_payload_bytes(const Request& request, int ranks);

class DirectOperation : public Operation {
 public:
  DirectOperation(const Segment& segment, RingWriter& writer, Request request);

 private:
  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override { return finished_; }
  [[nodiscard]] bool is_through(int /*other*/) const override { return true; }

  [[nodiscard]] bool contributes() const;
  [[nodiscard]] bool is_inline() const { return payload_bytes_ <= kInlineBytes; }
  [[nodiscard]] const std::byte* payload_of(int from) const;
  void finish();
  void combine(std::size_t offset_bytes);
  void take(int from, std::size_t offset_bytes, std::size_t to_bytes, std::size_t bytes);

  std::size_t payload_bytes_;
  bool finished_ = false;
};

}  // namespace lockstep::comm::shm
