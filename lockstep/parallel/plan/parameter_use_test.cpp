#include "lockstep/parallel/plan/parameter_use.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

using Names = std::vector<std::string>;

TEST(ParameterUse, ParametersOfOneLayerStandTogether) {
  EXPECT_EQ(short_list({"scale"}), "scale");
  EXPECT_EQ(short_list({"a.weight", "a.bias", "b.weight", "shift"}),
            "a.{weight, bias}, b.weight, shift");
}

TEST(ParameterUse, ManyNamesAreCutAndCounted) {
  Names names;
  for (int i = 0; i < 40; ++i) {
    names.push_back("blocks." + std::to_string(i) + ".fc.weight");
    names.push_back("blocks." + std::to_string(i) + ".fc.bias");
  }
  EXPECT_EQ(short_list(names, 2),
            "blocks.0.fc.{weight, bias}, blocks.1.fc.{weight, bias} and 76 more");
  EXPECT_LT(to_text({names, {}}).size(), 300U);
}

TEST(ParameterUse, SaysWhatNobodyUsesAndWhatSomeRanksUse) {
  EXPECT_EQ(to_text({}), "");
  EXPECT_EQ(to_text({{"head.weight"}, {}}),
            "parameters without a gradient on any rank: head.weight");
  EXPECT_EQ(to_text({{}, {{"a.weight", {1}}, {"a.bias", {1}}, {"b", {0, 2}}}}),
            "parameters with a gradient on some ranks only: a.{weight, bias} (rank 1), b (ranks 0, "
            "2)");
  EXPECT_EQ(to_text({{"x"}, {{"y", {3}}}}),
            "parameters without a gradient on any rank: x; with one on some ranks only: y (rank "
            "3)");
}

TEST(ParameterUse, ManyRanksAreCut) {
  PartlyUsed used{"gate", {}};
  for (int rank = 0; rank < 100; ++rank) used.ranks.push_back(rank);
  EXPECT_EQ(to_text({{}, {used}}),
            "parameters with a gradient on some ranks only: gate (ranks 0, 1, 2, 3, 4, 5, 6, 7 and "
            "92 more)");
}

TEST(ParameterUse, EachPatternOfRanksOfManyIsCutToo) {
  std::vector<PartlyUsed> partly;
  for (int i = 0; i < 20; ++i) partly.push_back({"expert" + std::to_string(i), {i}});
  EXPECT_EQ(to_text({{}, partly}),
            "parameters with a gradient on some ranks only: expert0 (rank 0), expert1 (rank 1), "
            "expert2 (rank 2), expert3 (rank 3) and 16 more");
}

}  // namespace
}  // namespace lockstep::parallel
