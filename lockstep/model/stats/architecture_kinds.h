// Statistics by kind of architecture; architecture_stats.cpp chooses.
#pragma once
#include <cstdint>

#include "lockstep/model/stats/architecture.h"
#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

/// decoder, encoder, encoder_decoder. \param sequence tokens of a sample, >= 1.
[[nodiscard]] ModelStats transformer_stats(const Architecture& architecture, std::int64_t sequence);
/// resnet (He et al. 2016, arXiv:1512.03385; strides stand in the 3 x 3 convolution).
[[nodiscard]] ModelStats residual_stats(const Architecture& architecture);
/// mlp, dlrm (Naumov et al. 2019, arXiv:1906.00091), wide_deep (Cheng et al. 2016,
/// arXiv:1606.07792).
[[nodiscard]] ModelStats tabular_stats(const Architecture& architecture);

}  // namespace lockstep::model
