// How a file looks under our names: one view for each tensor that a model may take from it.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/tensor_source.h"
#include "lockstep/checkpoint/names/match_names.h"
#include "lockstep/checkpoint/names/renamed_source.h"
#include "lockstep/checkpoint/weights/find_naming.h"

namespace lockstep::checkpoint {

struct WeightViews {
  std::vector<NamedView> views;    // under our names; what is not the model's under its own
  std::vector<std::string> twice;  // "a and b are one tensor's names"; views have the first
  /// Of wanted tensors without a view: what more there is to say than that it is missing.
  std::map<std::string, std::string> why_missing;
  /// Likewise, where their parts do not fit together: "F32 [3] is no matrix".
  std::map<std::string, std::string> misfits;
  std::vector<std::string> notes;
};

/// \param source under naming.names. Reads no data.
[[nodiscard]] WeightViews weight_views(const TensorSource& source, const Naming& naming,
                                       std::span<const WantedTensor> wanted);

}  // namespace lockstep::checkpoint
