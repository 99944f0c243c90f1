#include "lockstep/parallel/plan/pipeline_pieces.h"

#include <algorithm>

namespace lockstep::parallel {

std::vector<std::int64_t> layers_of_pieces(std::int64_t layers, const Layout& layout) {
  if (!layout.cuts.empty()) return layout.cuts;
  const auto pieces = std::max<std::int64_t>(1, std::int64_t{1} * layout.pipeline * layout.chunks);
  const std::int64_t left = layers % pieces;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(pieces), layers / pieces);
  const std::int64_t first = (pieces - left) / 2;
  for (std::int64_t i = first; i < first + left; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

}  // namespace lockstep::parallel
