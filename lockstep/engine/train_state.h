// Everything that must be saved for training to go on as if nothing had happened.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/sampler.h"
#include "lockstep/optim/loss_scale.h"

namespace lockstep::engine {

enum class StateKind : std::uint8_t { parameter, buffer, optimizer };

/// One tensor by name, or this rank's shard of it.
struct StateEntry {
  std::string name;                       // "qkv.weight"; optimizer: "qkv.weight/moment1"
  StateKind kind = StateKind::parameter;
  at::Tensor tensor;                      // a view of live memory, logical shape; any stride
  std::vector<std::int64_t> global_shape;
  std::vector<std::int64_t> offset;       // of this shard in the global tensor; zeros when whole
  std::vector<std::string> aliases;       // tied names
};

/// Counters are values; tensors are views: what a checkpoint writes and load() writes into.
struct TrainState {
  std::vector<StateEntry> entries;
  std::int64_t step = 0;                  // updates done
  data::Position position;                // next sample to read
  std::int64_t skipped_steps = 0;
  optim::LossScaleState loss_scale;       // of fp16 compute; scale 0 = there is none
};

/// SHA-256 (hex) over all parameters in name order as little-endian fp32, and of everything:
/// buffers, optimizer state and counters too. Needs whole tensors (one rank holds all).
[[nodiscard]] std::string parameters_sha256(const TrainState& state);
[[nodiscard]] std::string state_sha256(const TrainState& state);

}  // namespace lockstep::engine
