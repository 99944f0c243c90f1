// Whatever a path holds as a checkpoint to read.
#pragma once
#include <filesystem>
#include <memory>

#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/checkpoint/format/tensor_source.h"
#include "lockstep/checkpoint/tools/folder_kind.h"

namespace lockstep::checkpoint {

struct OpenOptions {
  std::uint64_t max_header_bytes = kMaxHeaderBytes;  // of a safetensors file
};

struct OpenCheckpoint {
  std::unique_ptr<const TensorSource> source;
  /// What was opened: of a run the folder of its newest complete step.
  std::filesystem::path path;
};

/// Reads headers alone. \throws BadData: LS-5003 nothing is there, or something else (HTML, zeros);
/// LS-5019 a format that this version knows and does not read; as the readers of the formats.
[[nodiscard]] OpenCheckpoint open_checkpoint(const std::filesystem::path& path,
                                             const OpenOptions& options = {});

}  // namespace lockstep::checkpoint
