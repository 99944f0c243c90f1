// Names for everything in the tree of a file of torch.save.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/torch_file.h"

namespace lockstep::checkpoint {

struct TorchContents {
  std::vector<StoredTensor> tensors;
  std::vector<TensorView> views;  // of tensors
  std::vector<SkippedEntry> skipped;
  std::map<std::string, std::string> facts;
};

/// \throws as TorchFileSource.
[[nodiscard]] TorchContents walk_torch_archive(const TorchArchive& archive);

}  // namespace lockstep::checkpoint
