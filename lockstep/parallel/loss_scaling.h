// fp16 training of one replica: the loss scale, and what was not finite.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/loss_scale.h"
#include "lockstep/parallel/control_block.h"
#include "lockstep/parallel/plan/not_finite.h"

namespace lockstep::parallel {

/// What the numbers of NotFiniteAt stand for.
struct PlaceNames {
  std::vector<std::string> parameters;
  std::vector<std::string> blocks;  // empty for a module that is no list of blocks
};

/// The earliest finding of a step over all ranks: an output comes before the loss, and that before
/// a gradient; of equals the lowest rank's.
[[nodiscard]] std::optional<NotFinite> first_not_finite(const std::vector<NotFiniteAt>& by_rank,
                                                        const PlaceNames& names);

/// After optim::kMaxSkippedSteps skips in a row. \param where "step 12".
[[nodiscard]] Error scale_does_not_help(const std::string& where, const optim::LossScale& scale,
                                        const std::optional<NotFinite>& first);

/// The same for gradients that are only on their way in fp16.
[[nodiscard]] Error sums_leave_fp16(const std::string& where, const NotFinite& first);

/// "first on rank 1: output of blocks.3", "first in the fp16 sum of bucket 0: ...".
[[nodiscard]] std::string to_text(const NotFinite& first);

}  // namespace lockstep::parallel
