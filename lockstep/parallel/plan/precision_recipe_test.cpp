#include "lockstep/parallel/plan/precision_recipe.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::parallel {
namespace {

const PrecisionRecipe& recipe(std::string_view name) {
  const PrecisionRecipe* row = find_recipe(name);
  EXPECT_NE(row, nullptr) << name;
  return row != nullptr ? *row : precision_recipes().front();
}

TEST(PrecisionRecipes, HaveTheBytesThatTheirNamesPromise) {
  EXPECT_EQ(recipe("fp32").states(), 16);
  EXPECT_EQ(recipe("fp16").states(), 16);
  EXPECT_EQ(recipe("bf16").states(), 16);
  EXPECT_EQ(recipe("bf16-fp32grad").states(), 18);
  EXPECT_EQ(recipe("fp16-20").states(), 20);
  EXPECT_EQ(recipe("fp32-master-cast").states(), 12);
  EXPECT_EQ(recipe("bf16-only").states(), 8);
}

TEST(PrecisionRecipes, AreEachCalledDifferently) {
  std::set<std::string_view> names;
  for (const PrecisionRecipe& row : precision_recipes()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
  }
}

TEST(PrecisionRecipes, NameTheNearestForAWrongName) {
  EXPECT_TRUE(check_recipe("bf16").empty());
  const auto problems = check_recipe("bf16-fp32grads");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6101");
  EXPECT_EQ(problems[0].where, "--precision");
  EXPECT_NE(problems[0].fix.find("bf16-fp32grad"), std::string::npos) << problems[0].fix;
  EXPECT_NE(check_recipe("int3")[0].fix.find("fp32-master-cast"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::parallel
