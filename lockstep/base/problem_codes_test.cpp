#include "lockstep/base/problem_codes.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(ProblemCodes, AreAscendingAndUnique) {
  std::string before;
  for (const ProblemCode& row : problem_codes()) {
    EXPECT_LT(before, row.code);
    before = row.code;
  }
}

TEST(ProblemCodes, EachHasATitleAndAnExplanationThatEndsInAFullStop) {
  for (const ProblemCode& row : problem_codes()) {
    EXPECT_EQ(row.code.substr(0, 3), "LS-") << row.code;
    EXPECT_EQ(row.code.size(), 7U) << row.code;
    EXPECT_FALSE(row.title.empty()) << row.code;
    ASSERT_FALSE(row.explain.empty()) << row.code;
    EXPECT_EQ(row.explain.back(), '.') << row.code;
  }
}

TEST(ProblemCodes, AreFoundByName) {
  ASSERT_NE(find_problem_code("LS-1001"), nullptr);
  EXPECT_EQ(find_problem_code("LS-1001")->title, "file not readable");
  EXPECT_EQ(find_problem_code("LS-0000"), nullptr);
  EXPECT_EQ(find_problem_code(""), nullptr);
}

}  // namespace
}  // namespace lockstep
