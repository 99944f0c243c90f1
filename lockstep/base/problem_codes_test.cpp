#include "lockstep/base/problem_codes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FindProblemCode, GivesTheRowOfACodeAndNothingElse) {
  for (const ProblemCode& row : problem_codes()) EXPECT_EQ(find_problem_code(row.code), &row);
  ASSERT_NE(find_problem_code("LS-1001"), nullptr);
  EXPECT_EQ(find_problem_code("LS-1001")->title, "file not readable");
  EXPECT_EQ(find_problem_code("LS-0000"), nullptr);
  EXPECT_EQ(find_problem_code(""), nullptr);
}

}  // namespace
}  // namespace lockstep
