// How many micro-batches a pipeline rank has begun and not ended when it holds most.
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Forwards of stage i, counted in chunks, before the first that is followed by a backward.
[[nodiscard]] std::int64_t forwards_ahead(const Layout& layout, int stage);

/// Of each of the rank's chunks (one, unless interleaved), the micro-batches whose activations are
/// held. GPipe holds all m; 1F1B min(m, p - i) at stage i of p (Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2); interleaved as many chunks as are begun before the first
/// backward: 2 (p - i - 1) + (v - 1) p + 1, which at the first stage is p v (1 + (p - 1) / (p v))
/// (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3).
[[nodiscard]] std::vector<std::int64_t> in_flight(const Layout& layout, int stage);

}  // namespace lockstep::parallel
