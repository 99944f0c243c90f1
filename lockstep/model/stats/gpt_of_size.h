// A GPT of about so many parameters: what `plan --params 7e9` plans.
#pragma once
#include "lockstep/model/stats/architecture.h"

namespace lockstep::model {

/// Depth and width between the rows of table 2.1 of Brown et al. 2020 (arXiv:2005.14165),
/// interpolated on logarithmic scales; the depth and then the feed-forward width, about four times
/// the width, are moved until the sum is within 0.5 %. The vocabulary is GPT-2's; below 60 million
/// parameters, of which it would be more than half, the 256 bytes.
/// \throws UsageError LS-6025 below 1e5 and above 1e14.
[[nodiscard]] Architecture gpt_of_size(double parameters);

}  // namespace lockstep::model
