#include "lockstep/checkpoint/names/name_pattern.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

TEST(NamePattern, NumbersAreTakenAndPutBack) {
  const auto found = match_pattern("h.{layer}.ln_{norm}.weight", "h.11.ln_2.weight");
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].key, "layer");
  EXPECT_EQ((*found)[0].number, 11);
  EXPECT_EQ((*found)[1].number, 2);
  EXPECT_EQ(fill_pattern("blocks.{layer}.ln{norm}", *found), "blocks.11.ln2");
  EXPECT_EQ(fill_pattern("{norm}.{layer}", *found), "2.11");
}

TEST(NamePattern, ACountFromOneIsMovedToZero) {
  const auto found = match_pattern("stage{stage+1}.0", "stage3.0");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)[0].number, 2);
  EXPECT_EQ(fill_pattern("stages.{stage}", *found), "stages.2");
  EXPECT_EQ(fill_pattern("layer{stage+1}", *found), "layer3");
  EXPECT_FALSE(match_pattern("stage{stage+1}.0", "stage0.0").has_value());
}

TEST(NamePattern, OnlyTheWholeNameCounts) {
  EXPECT_TRUE(match_pattern("wte.weight", "wte.weight").has_value());
  for (const char* name : {"", "wte", "wte.weight2", "xwte.weight", "wte.weighT", "wte_weight"}) {
    EXPECT_FALSE(match_pattern("wte.weight", name).has_value()) << name;
  }
  for (const char* name : {"h..w", "h.x.w", "h.-1.w", "h.+1.w", "h. 1.w", "h.1 .w", "h.1",
                           "h.1.w.w", "h.", "h.1.2.w"}) {
    EXPECT_FALSE(match_pattern("h.{layer}.w", name).has_value()) << name;
  }
}

TEST(NamePattern, ANumberThatNobodyWritesIsNone) {
  EXPECT_TRUE(match_pattern("h.{layer}", "h.0").has_value());
  EXPECT_FALSE(match_pattern("h.{layer}", "h.00").has_value());
  EXPECT_FALSE(match_pattern("h.{layer}", "h.01").has_value());
  EXPECT_TRUE(match_pattern("h.{layer}", "h.999999999").has_value());
  EXPECT_FALSE(match_pattern("h.{layer}", "h.1000000000").has_value());
  EXPECT_FALSE(match_pattern("h.{layer}", "h." + std::string(100'000, '9')).has_value());
}

TEST(NamePattern, FaultyPatternsAreOurOwnFault) {
  EXPECT_THROW((void)match_pattern("h.{layer", "h.1"), Bug);
  EXPECT_THROW((void)fill_pattern("h.{layer}", {}), Bug);
}

}  // namespace
}  // namespace lockstep::checkpoint
