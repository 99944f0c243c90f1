// What kind of checkpoint a path holds, by names and first bytes alone: readers look closer.
#pragma once
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

enum class CheckpointKind {
  nothing,
  step,         // one of our folders step-N
  run,          // the folder of several step-N
  safetensors,  // a file, an index, or a folder with either
  torch,        // a file of torch.save()
  dcp,          // a folder with .metadata
  deepspeed,    // a folder with `latest`, or one of the folders that it names
};

/// "lockstep", "lockstep", "safetensors", "torch", "dcp", "deepspeed": as TensorSource::format();
/// "" for nothing.
[[nodiscard]] std::string format_of(CheckpointKind kind);

struct FolderKind {
  CheckpointKind kind = CheckpointKind::nothing;
  /// What a reader of that kind opens: for a run RUN_DIR/checkpoints, for torch the file.
  std::filesystem::path path;
  std::string why;  // there is nothing, or nothing that can be read
  std::string fix;
};

/// Follows links. Reads names of folders and at most 64 KiB of a file.
/// \throws EnvironmentFault (LS-5002) when the system refuses.
[[nodiscard]] FolderKind folder_kind(const std::filesystem::path& path);

/// The problem of a path that holds nothing (LS-5003). \pre kind is nothing.
[[nodiscard]] Problem problem_of(const FolderKind& nothing);

}  // namespace lockstep::checkpoint
