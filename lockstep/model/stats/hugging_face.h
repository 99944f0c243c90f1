// The config.json of a Hugging Face model, as transformers 4 and 5 write it, and of three kinds
// that transformers does not have: mlp, dlrm, wide_deep.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model/stats/described_model.h"

namespace lockstep::model {

/// Said of models that our count fixes in a way of its own.
inline constexpr std::string_view kPoolerAssumption =
    "a pooler and two classes at the end, no head over the vocabulary";
inline constexpr std::string_view kEqualSidesAssumption = "as many tokens come out as go in";

/// Nothing is guessed in silence: sizes must be there, and options that are not are taken as
/// transformers has them and said.
/// \param where the file, for messages.
/// \throws UsageError with all problems: LS-6022 no JSON object, LS-6023 a model_type that nobody
/// here knows, LS-6024 a key that is missing or unusable, or those of check_architecture.
[[nodiscard]] DescribedModel read_hugging_face(std::string_view text, const std::string& where);

/// The values of model_type that it reads.
[[nodiscard]] std::vector<std::string_view> hugging_face_types();

}  // namespace lockstep::model
