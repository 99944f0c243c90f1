// Which files of a DeepSpeed checkpoint are there, by their names alone.
#pragma once
#include <filesystem>
#include <vector>

#include "lockstep/checkpoint/foreign/pickle_machine.h"

namespace lockstep::checkpoint {

struct DeepSpeedFiles {
  std::filesystem::path folder;                  // of one checkpoint: <dir>/<tag>
  std::vector<std::filesystem::path> optimizer;  // [rank]: *zero_pp_rank_<rank>_*_optim_states.pt
  /// mp_rank_00_model_states.pt alone (ZeRO 1 and 2), or one a rank (ZeRO 3).
  std::vector<std::filesystem::path> model;
};

/// \param dir a folder with `latest`, or one of those that it can name.
/// \throws BadData: LS-5020 when `latest` names no folder beside it, files of ranks are missing or
/// there twice, or parts of a model are spread over ranks in a way that is not put together here
/// (tensor and pipeline parallel, experts); EnvironmentFault (LS-5002).
[[nodiscard]] DeepSpeedFiles find_deepspeed_files(const std::filesystem::path& dir);

/// What DeepSpeed's files name beside torch_globals().
[[nodiscard]] const PickleGlobals& deepspeed_globals();

}  // namespace lockstep::checkpoint
