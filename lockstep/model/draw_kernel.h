// Many normal numbers at once: ten million parameters are drawn before the first step.
#pragma once
#include <cstdint>

namespace lockstep::model {

/// Normal numbers of mean 0 from the stream Rng(key), two of a draw (Box and Muller, 1958). The
/// i-th does not depend on `count`; the same bits on every CPU.
void draw_normals(std::uint64_t key, float std_deviation, float* out, std::int64_t count);

}  // namespace lockstep::model
