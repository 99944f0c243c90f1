// Which blocks each stage of a pipeline has.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/cost/block_runs.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

struct StagePart {
  std::size_t run = 0;  // which
  std::int64_t count = 0;
};

/// The parts of every stage: layers by layout.cuts, else as even as can be, with what is left over
/// in the middle (the ends have the embedding and the head); what stands before the first layer
/// goes to the first stage, what stands behind the last one to the last.
[[nodiscard]] std::vector<std::vector<StagePart>> split_stages(const std::vector<BlockRun>& runs,
                                                               const Layout& layout);

}  // namespace lockstep::parallel
