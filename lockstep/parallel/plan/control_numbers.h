// How many numbers ride behind the last bucket of gradients: what is sent and what is planned.
#pragma once
#include <cstdint>

namespace lockstep::parallel {

/// Loss, weight in two digits, four kinds of votes, the rank without memory, micro-batches.
inline constexpr std::int64_t kControlFields = 9;
/// Of each rank: six times, where its step was not finite, whether a static graph was broken.
inline constexpr std::int64_t kControlOfARank = 8;

}  // namespace lockstep::parallel
