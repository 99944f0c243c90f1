// Which part of the training state each rank writes.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/comm/group.h"
#include "lockstep/engine/train_state.h"

namespace lockstep::checkpoint {

/// A box of the state that this rank writes.
struct OwnPart {
  std::size_t tensor = 0;  // of SavePlan::tensors
  std::size_t entry = 0;   // of TrainState::entries, which has it
  Box box;                 // in the whole tensor
};

struct SavePlan {
  std::vector<ManifestTensor> tensors;  // of all ranks, by name; without pieces
  std::vector<OwnPart> own;             // in the order of `tensors`
  std::uint64_t bytes = 0;              // of all ranks together
};

/// Collective: the ranks tell each other which boxes they hold, and share the writing out
/// (share_out.h). A bug when ranks disagree about a tensor, or a part of one is on no rank.
[[nodiscard]] SavePlan plan_save(const engine::TrainState& state, comm::Group& group);

/// The part's elements in the entry's live memory: a view.
[[nodiscard]] at::Tensor view_of(const engine::TrainState& state, const OwnPart& part);

/// What one save writes: parts[i] is own[i] of the plan, in live memory or a copy of it.
struct SaveParts {
  Manifest described;  // without tensors and files
  SavePlan plan;
  std::vector<at::Tensor> parts;
};

}  // namespace lockstep::checkpoint
