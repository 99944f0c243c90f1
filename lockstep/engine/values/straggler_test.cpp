#include "lockstep/engine/values/straggler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/rng.h"

namespace lockstep::engine {
namespace {

/// What one rank does by itself: 2 + 30 + 60 + 3 ms.
PhaseTimes own_times() { return {0, 0.002, 0.030, 0.060, 0, 0.003}; }

/// As all_reduce would: each waits for the slowest, and for 1 ms of transfer.
std::vector<PhaseTimes> in_step(std::vector<PhaseTimes> ranks) {
  const auto own = [](const PhaseTimes& t) {
    return t.data_s + t.forward_s + t.backward_s + t.optimizer_s;
  };
  double longest_s = 0;
  for (const PhaseTimes& times : ranks) longest_s = std::max(longest_s, own(times));
  for (PhaseTimes& times : ranks) {
    times.sync_s = longest_s - own(times) + 0.001;
    times.step_s = longest_s + 0.001;
  }
  return ranks;
}

TEST(Straggler, IsTheRankThatComputesLongestThoughAllStepsTakeEquallyLong) {
  std::vector<PhaseTimes> ranks(4, own_times());
  ranks[2].backward_s += 0.020;
  ranks[2].forward_s += 0.004;
  const auto found = find_straggler(in_step(ranks));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->phase, "backward");
  EXPECT_NEAR(found->slower_s, 0.024, 1e-9);
  EXPECT_NEAR(found->share(), 0.024 / 0.095, 1e-9);
  EXPECT_NEAR(found->others_wait_s, 0.024, 1e-9);
  EXPECT_NEAR(found->others.backward_s, 0.060, 1e-9);
}

TEST(Straggler, ADifferenceBelowATenthIsNone) {
  std::vector<PhaseTimes> ranks(2, own_times());
  ranks[1].data_s += 0.009;
  EXPECT_FALSE(find_straggler(in_step(ranks)));
  ranks[1].data_s += 0.002;
  EXPECT_TRUE(find_straggler(in_step(ranks)));
}

TEST(Straggler, ASlowRankThatNobodyWaitsForIsNone) {
  std::vector<PhaseTimes> ranks = in_step(std::vector<PhaseTimes>(2, own_times()));
  ranks[1].forward_s += 0.05;
  ranks[1].step_s += 0.05;  // nobody else is later for it
  EXPECT_FALSE(find_straggler(ranks));
}

TEST(Straggler, OneRankAloneIsNone) {
  EXPECT_FALSE(find_straggler(in_step({own_times()})));
  EXPECT_FALSE(find_straggler({}));
}

/// Steps of `ranks` whose own times vary by `noise` (a share, standard deviation).
class NoisySteps {
 public:
  NoisySteps(std::size_t ranks, double noise) : ranks_(ranks), noise_(noise) {}

  [[nodiscard]] std::vector<PhaseTimes> next(std::size_t slow, double slower_s) {
    std::vector<PhaseTimes> step(ranks_, own_times());
    for (PhaseTimes& times : step) {
      times.forward_s *= factor();
      times.backward_s *= factor();
    }
    if (slow < ranks_) step[slow].data_s += slower_s;
    return in_step(step);
  }

 private:
  double factor() { return std::max(0.3, 1 + noise_ * draws_.normal()); }

  std::size_t ranks_;
  double noise_;
  Rng draws_{7};
};

constexpr std::size_t kNobody = 1000;

TEST(StragglerWatch, NamesTheSlowRankOnceInTheNoise) {
  for (const std::size_t ranks : {2U, 8U}) {
    NoisySteps steps(ranks, 0.1);
    StragglerWatch watch;
    std::vector<Straggler> told;
    for (int i = 0; i < 400; ++i) {
      if (auto found = watch.add(steps.next(1, 0.030))) told.push_back(*found);
    }
    ASSERT_EQ(told.size(), 1U) << ranks;
    EXPECT_EQ(told[0].rank, 1);
    EXPECT_EQ(told[0].phase, "data");
    EXPECT_NEAR(told[0].share(), 0.030 / 0.095, 0.08);
  }
}

TEST(StragglerWatch, NamesNobodyWhenAllAreEqualButForNoise) {
  for (const std::size_t ranks : {2U, 8U, 64U}) {
    NoisySteps steps(ranks, 0.2);
    StragglerWatch watch;
    for (int i = 0; i < 4000; ++i) EXPECT_FALSE(watch.add(steps.next(kNobody, 0)));
  }
}

TEST(StragglerWatch, OneLongPauseIsNoStraggler) {
  NoisySteps steps(2, 0.05);
  StragglerWatch watch;
  for (int i = 0; i < 400; ++i) EXPECT_FALSE(watch.add(steps.next(1, i == 20 ? 30.0 : 0.0)));
}

TEST(StragglerWatch, NamesARankThatIsPausedEveryNowAndThen) {
  NoisySteps steps(2, 0.05);
  StragglerWatch watch;
  int told = 0;
  for (int i = 0; i < 200; ++i) {
    if (const auto found = watch.add(steps.next(0, i % 4 == 0 ? 0.080 : 0.0))) {
      EXPECT_EQ(found->rank, 0);
      ++told;
    }
  }
  EXPECT_EQ(told, 1);
}

TEST(StragglerWatch, TellsAgainWhenItHasBecomeTwiceAsSlow) {
  NoisySteps steps(2, 0.02);
  StragglerWatch watch;
  int told = 0;
  for (int i = 0; i < 200; ++i) told += watch.add(steps.next(1, 0.02)) ? 1 : 0;
  EXPECT_EQ(told, 1);
  for (int i = 0; i < 200; ++i) told += watch.add(steps.next(1, 0.08)) ? 1 : 0;
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace lockstep::engine
