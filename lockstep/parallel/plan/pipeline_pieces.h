// How layers are dealt out to a pipeline.
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Layers of each piece in the order that a micro-batch passes them; stage i of p has pieces i,
/// i + p, ... As Layout::cuts say, else as even as can be, with what is left over in the middle:
/// the ends have the embedding and the head.
[[nodiscard]] std::vector<std::int64_t> layers_of_pieces(std::int64_t layers, const Layout& layout);

}  // namespace lockstep::parallel
