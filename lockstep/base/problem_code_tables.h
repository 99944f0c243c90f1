// The explained codes by topic: their first digit says which. Each table is one file.
#pragma once
#include <span>

#include "lockstep/base/problem_codes.h"

namespace lockstep {

[[nodiscard]] std::span<const ProblemCode> problem_codes_of_input();     // LS-1..., LS-2...
[[nodiscard]] std::span<const ProblemCode> problem_codes_of_ranks();     // LS-3..., LS-4...
[[nodiscard]] std::span<const ProblemCode> problem_codes_of_training();  // LS-5... and above

}  // namespace lockstep
