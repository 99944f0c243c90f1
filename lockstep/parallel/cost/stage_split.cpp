#include "lockstep/parallel/cost/stage_split.h"

#include <algorithm>

#include "lockstep/parallel/plan/pipeline_pieces.h"

namespace lockstep::parallel {
namespace {

std::int64_t layers_of(const std::vector<BlockRun>& runs) {
  std::int64_t layers = 0;
  for (const BlockRun& run : runs) layers += run.block->is_layer ? run.count : 0;
  return layers;
}

}  // namespace

std::vector<std::vector<StagePart>> split_stages(const std::vector<BlockRun>& runs,
                                                 const Layout& layout) {
  std::vector<std::int64_t> room = layers_of_pieces(layers_of(runs), layout);
  const auto stages = static_cast<std::size_t>(layout.pipeline);
  std::vector<std::vector<StagePart>> split(stages);
  std::size_t piece = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const BlockRun& run = runs[i];
    if (!run.block->is_layer) {
      const bool behind_all =
          std::all_of(room.begin(), room.end(), [](std::int64_t n) { return n == 0; });
      split[behind_all ? stages - 1 : piece % stages].push_back({i, run.count});
      continue;
    }
    std::int64_t left = run.count;
    while (left > 0) {
      while (piece + 1 < room.size() && room[piece] == 0) ++piece;
      const bool last = piece + 1 == room.size();
      const std::int64_t here = last ? left : std::min(left, room[piece]);
      split[piece % stages].push_back({i, here});
      room[piece] -= std::min(room[piece], here);
      left -= here;
    }
  }
  return split;
}

}  // namespace lockstep::parallel
