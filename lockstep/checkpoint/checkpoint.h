// Saves and loads a TrainState as a folder step-N: safetensors files and a manifest
// (docs/formats/checkpoint.md). Which folders there are: checkpoint/format/step_folder.h.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/save_plan.h"
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
  std::string data_hash{};                        // of the training data's files; empty = unknown
};

/// A checkpoint that is whole.
struct Saved {
  std::filesystem::path folder;
  /// Why older ones that are not to be kept are still there; known to the first rank alone.
  std::optional<Problem> left{};
};

/// Collective: writes step-<state.step> below `checkpoints_dir`, every byte once: what several
/// ranks hold they share out among them. Afterwards the `keep` newest are kept (0 = all). When it
/// throws, the checkpoints that were there before still are, and training may go on.
/// \param state entries are whole tensors or this rank's boxes of them; all ranks' boxes together
/// cover each tensor, and equal boxes hold equal values.
/// \returns the new folder, on every rank. \throws EnvironmentFault on every rank: LS-5001 (no
/// room or quota), LS-5002 (not writable), both with path, need and free; LS-5018 (the ranks do not
/// share the folder). PeerLost: then what was written stays, shown as incomplete, until the next
/// save, since a rank that is not heard may still write.
std::filesystem::path save(const engine::TrainState& state,
                           const std::filesystem::path& checkpoints_dir, const SaveInfo& info,
                           comm::Group& group, int keep);

// The two halves of save(): what is to be written, and writing it, which may be behind the training
// when parts are copies.
/// Collective. Parts are views of the live state.
[[nodiscard]] SaveParts parts_of(const engine::TrainState& state, const SaveInfo& info,
                                 comm::Group& group);
/// Collective. \throws as save().
[[nodiscard]] Saved write_save(const SaveParts& save, const std::filesystem::path& checkpoints_dir,
                               comm::Group& group, int keep);

/// Collective: fills the live tensors of `state` and its counters from the folder `step_dir`, which
/// every rank reads; tensors are found by name or alias. After an error the tensors may be half
/// written: load another checkpoint or give up. \returns the manifest, for the stored
/// configuration. \throws BadData on every rank: LS-5003 to LS-5005 and LS-5007 as StepReader,
/// LS-5006 naming the tensors that are missing, left over or of another shape or type;
/// EnvironmentFault (LS-5002).
Manifest load(engine::TrainState& state, const std::filesystem::path& step_dir, comm::Group& group);

}  // namespace lockstep::checkpoint
