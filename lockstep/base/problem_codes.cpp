#include "lockstep/base/problem_codes.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr auto kCodes = std::to_array<ProblemCode>({
    {"LS-1001", "file not readable",
     "A file named on the command line does not exist or cannot be read. Check the spelling; "
     "relative paths are taken from the folder the command runs in."},
    {"LS-9001", "a bug of lockstep",
     "An assumption inside lockstep did not hold. The message names the source line; please report "
     "it with the command you ran."},
});

}  // namespace

std::span<const ProblemCode> problem_codes() { return kCodes; }

const ProblemCode* find_problem_code(std::string_view code) {
  const auto* row = std::find_if(kCodes.begin(), kCodes.end(),
                                 [&](const ProblemCode& c) { return c.code == code; });
  return row == kCodes.end() ? nullptr : row;
}

}  // namespace lockstep
