// Which tensors of somebody's file a model starts from, and what people are told about the rest.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/tensor_source.h"
#include "lockstep/checkpoint/names/match_names.h"
#include "lockstep/checkpoint/names/renamed_source.h"

namespace lockstep::checkpoint {

struct WeightsOptions {
  /// Tensors that are not in the file, or do not fit, stay as they were initialised, with a note.
  bool partial = false;
  /// Prefixes to take off names: "": what helps; "none"; or "model.,net.".
  std::string strip{};
};

struct WeightsMatch {
  std::unique_ptr<const TensorSource> source;
  /// What each wanted tensor is made of, in parts of `source`; nothing: it stays as initialised.
  /// Shapes are the wanted ones.
  std::vector<std::optional<NamedView>> views;
  MatchReport report;
  std::vector<std::string> notes;  // for people, one line each
};

/// Finds the parameters and buffers of a model in `source`: by their own names, behind prefixes
/// (\see strip_prefixes) and below dicts like "state_dict", or by the tables of the model's family
/// (Hugging Face, torchvision), by which matrices are put together and turned. Of positions that
/// are embedded ("embed.wpe.weight") the first rows are enough. Optimizer state is passed over;
/// what else has no place in the model is noted. Any type of floating-point numbers of whole bytes
/// fits. Reads no data but that of tensors which the model shares and the file holds twice.
/// \param family "gpt", "resnet", ...: \see tables_of. \param wanted as the model has them; their
/// dtype is not looked at. \param where the file, for messages.
/// \throws BadData (LS-5014) with everything at once: nothing is matched, whatever the options; or
/// tensors are missing, of another shape or no weights, unless options.partial; as
/// TensorSource::read().
[[nodiscard]] WeightsMatch match_weights(std::unique_ptr<const TensorSource> source,
                                         std::string_view family,
                                         const std::vector<WantedTensor>& wanted,
                                         const WeightsOptions& options, const std::string& where);

}  // namespace lockstep::checkpoint
