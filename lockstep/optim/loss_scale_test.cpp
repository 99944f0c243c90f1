#include "lockstep/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace lockstep::optim {
namespace {

// By tests/oracles/grad_scaler_table.py with PyTorch 2.11 (growth_interval 3): '.' is a good step,
// 'x' one whose gradients were not finite.
TEST(LossScale, FollowsTheScaleOfPyTorchsGradScaler) {
  constexpr const char* kSteps = "...x..x.......xx...x";
  constexpr std::array<double, 20> kScales{65536, 65536, 131072, 65536, 65536, 65536,  32768,
                                           32768, 32768, 65536,  65536, 65536, 131072, 131072,
                                           65536, 32768, 32768,  32768, 65536, 32768};
  LossScaleOptions options;
  options.growth_interval = 3;
  LossScale scale(options);
  for (std::size_t i = 0; i < kScales.size(); ++i) {
    scale.update(kSteps[i] == '.');
    EXPECT_EQ(scale.state().scale, kScales.at(i)) << "after step " << i;
  }
}

TEST(LossScale, StartsAndGrowsAsPyTorchDoesWhenNothingIsSaid) {
  LossScale scale{LossScaleOptions{}};
  EXPECT_EQ(scale.state().scale, 65536);
  for (int i = 0; i < 1999; ++i) scale.update(true);
  EXPECT_EQ(scale.state(), (LossScaleState{65536, 1999}));
  scale.update(true);
  EXPECT_EQ(scale.state(), (LossScaleState{131072, 0}));
}

TEST(LossScale, FallsToItsMinimumAndNoFurther) {
  LossScale scale{LossScaleOptions{}};
  for (int i = 0; i < 15; ++i) scale.update(false);
  EXPECT_EQ(scale.state().scale, 2);
  EXPECT_FALSE(scale.at_minimum());
  for (int i = 0; i < 3; ++i) scale.update(false);
  EXPECT_EQ(scale.state().scale, 1);
  EXPECT_TRUE(scale.at_minimum());
}

TEST(LossScale, NeverGrowsToInfinity) {
  LossScaleOptions options;
  options.growth_interval = 1;
  LossScale scale(options);
  for (int i = 0; i < 1000; ++i) scale.update(true);
  EXPECT_TRUE(std::isfinite(static_cast<float>(scale.state().scale)));
}

TEST(LossScale, AFixedScaleStaysWhateverHappensAndWhateverWasSaved) {
  LossScaleOptions options;
  options.fixed = 1000;
  LossScale scale(options);
  scale.update(false);
  for (int i = 0; i < 5000; ++i) scale.update(true);
  scale.set_state({64, 3});
  EXPECT_EQ(scale.state().scale, 1000);
  EXPECT_TRUE(scale.at_minimum());
}

TEST(LossScale, TheFactorOfASummedLossIsThatOfTheMeanRoundedDownToAPowerOfTwo) {
  const LossScale scale{LossScaleOptions{}};
  EXPECT_EQ(scale.factor(1), 65536);
  EXPECT_EQ(scale.factor(8), 8192);
  EXPECT_EQ(scale.factor(9), 4096);
  EXPECT_EQ(scale.factor(std::int64_t{1} << 40), 0x1p-24);
  for (std::int64_t weight = 1; weight < 5000; ++weight) {
    const double factor = scale.factor(weight);
    ASSERT_EQ(std::exp2(std::round(std::log2(factor))), factor) << weight;
    ASSERT_LE(factor * static_cast<double>(weight), 65536);
    ASSERT_GT(factor * static_cast<double>(weight), 32768);
  }
}

TEST(LossScale, ARestoredStateGoesOnWhereItWas) {
  LossScaleOptions options;
  options.growth_interval = 4;
  LossScale whole(options);
  LossScale first(options);
  for (const bool finite : {true, false, true, true, true}) {
    whole.update(finite);
    first.update(finite);
  }
  LossScale second(options);
  second.set_state(first.state());
  for (const bool finite : {true, true, false}) {
    whole.update(finite);
    second.update(finite);
    EXPECT_EQ(second.state(), whole.state());
  }
}

}  // namespace
}  // namespace lockstep::optim
