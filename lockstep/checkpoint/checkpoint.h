// Saves and loads a TrainState as a folder step-N: safetensors files and a manifest
// (docs/formats/checkpoint.md). Which folders there are: checkpoint/format/step_folder.h.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/comm/group.h"
#include "lockstep/engine/train_state.h"

namespace lockstep::checkpoint {

/// What a checkpoint says about the run that saved it.
struct SaveInfo {
  std::string config_hash;
  std::string config_json = "{}";  // one JSON object, kept as it is
  std::int64_t seed = 0;
  std::string layout;                           // "data=2"
  std::map<std::string, std::string> versions;  // "lockstep" -> "0.1.0"; libtorch is added
};

/// Collective: writes step-<state.step> below `checkpoints_dir`, on rank 0; afterwards keeps the
/// `keep` newest (0 = all). Every entry must be whole and equal on all ranks. When it throws, the
/// checkpoints that were there before still are, and training may go on.
/// \returns the new folder, on every rank. \throws EnvironmentFault on every rank: LS-5001 (no
/// room: path, need, free), LS-5002 (not writable).
std::filesystem::path save(const engine::TrainState& state,
                           const std::filesystem::path& checkpoints_dir, const SaveInfo& info,
                           comm::Group& group, int keep);

/// Collective: fills the live tensors of `state` and its counters from the folder `step_dir`, which
/// every rank reads; tensors are found by name or alias. After an error the tensors may be half
/// written: load another checkpoint or give up. \returns the manifest, for the stored
/// configuration. \throws BadData on every rank: LS-5003 to LS-5005 and LS-5007 as StepReader,
/// LS-5006 naming the tensors that are missing, left over or of another shape or type;
/// EnvironmentFault (LS-5002).
Manifest load(engine::TrainState& state, const std::filesystem::path& step_dir, comm::Group& group);

}  // namespace lockstep::checkpoint
