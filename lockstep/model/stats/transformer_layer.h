// One layer of a transformer: attention, perhaps over an encoder's output too, and a feed-forward
// part, perhaps of experts.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/model/stats/architecture.h"
#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

struct TransformerLayer {
  std::string prefix;  // "blocks."
  double tokens = 0;   // of a sample
  bool causal = false;
  double source_tokens = 0;  // of the encoder's output; 0 = there is none
};

/// \param index of the layer in its stack.
[[nodiscard]] BlockStats transformer_layer(const Architecture& architecture,
                                           const TransformerLayer& layer, std::int64_t index);

}  // namespace lockstep::model
