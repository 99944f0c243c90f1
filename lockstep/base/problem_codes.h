// The table of every LS-nnnn code: what `lockstep help LS-nnnn` prints.
#pragma once
#include <span>
#include <string_view>

namespace lockstep {

struct ProblemCode {
  std::string_view code;     // "LS-1003"
  std::string_view title;    // a noun phrase: "unknown configuration key"
  std::string_view explain;  // why it happens and what to do, a few sentences
};

/// All codes, ascending. 1xxx configuration and flags, 2xxx data, 3xxx machine and launch,
/// 4xxx communication, 5xxx checkpoints, 6xxx model and plan, 7xxx training, 9001 a bug of ours.
[[nodiscard]] std::span<const ProblemCode> problem_codes();

/// The row of `code`, or nullptr.
[[nodiscard]] const ProblemCode* find_problem_code(std::string_view code);

}  // namespace lockstep
