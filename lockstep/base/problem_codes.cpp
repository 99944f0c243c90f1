#include "lockstep/base/problem_codes.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/problem_code_tables.h"

namespace lockstep {

std::span<const ProblemCode> problem_codes() {
  static const std::vector<ProblemCode> all = [] {
    std::vector<ProblemCode> rows;
    for (const auto table :
         {problem_codes_of_input(), problem_codes_of_ranks(), problem_codes_of_training()}) {
      rows.insert(rows.end(), table.begin(), table.end());
    }
    return rows;
  }();
  return all;
}

const ProblemCode* find_problem_code(std::string_view code) {
  const auto codes = problem_codes();
  const auto row = std::find_if(codes.begin(), codes.end(),
                                [&](const ProblemCode& c) { return c.code == code; });
  return row == codes.end() ? nullptr : &*row;
}

}  // namespace lockstep
