// A model as the command line gives it, and in a sentence for people.
#pragma once
#include <string>
#include <vector>

#include "lockstep/model/stats/architecture.h"

namespace lockstep::model {

struct DescribedModel {
  Architecture architecture;
  std::string stored_type;               // dtype, "bfloat16"; empty where it is not given
  std::vector<std::string> assumptions;  // sentences: what was not given, or is not modelled
};

/// What `--model` names: a file that is there, a folder with a config.json, or else a known model.
/// \throws UsageError as read_hugging_face and known_model; LS-1001 for a file that is not
/// readable.
[[nodiscard]] DescribedModel described_model(const std::string& name);

/// "32 layers, 4,096 wide, 32 heads with 8 of keys and values, feed-forward 14,336, vocabulary
/// 128,256".
[[nodiscard]] std::string in_words(const Architecture& architecture);

}  // namespace lockstep::model
