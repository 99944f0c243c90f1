#include "lockstep/planner/pipeline_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace lockstep::planner {
namespace {

/// Every way to deal out the layers.
double least_of_all(const LayerCosts& costs, int stages, std::vector<std::int64_t>& cuts) {
  const auto dealt = std::accumulate(cuts.begin(), cuts.end(), std::int64_t{0});
  const std::int64_t left = static_cast<std::int64_t>(costs.layers.size()) - dealt;
  const std::int64_t stages_left = stages - static_cast<std::int64_t>(cuts.size());
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t first = stages_left == 1 ? left : 1;
  for (std::int64_t here = first; here <= left - (stages_left - 1); ++here) {
    cuts.push_back(here);
    least = std::min(
        least, stages_left == 1 ? slowest_stage(costs, cuts) : least_of_all(costs, stages, cuts));
    cuts.pop_back();
  }
  return least;
}

TEST(PipelineCuts, AreAsGoodAsTheBestOfAll) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 2);
  for (int round = 0; round < 60; ++round) {
    LayerCosts costs;
    const int layers = 1 + round % 10;
    for (int i = 0; i < layers; ++i) costs.layers.push_back(seconds(random));
    costs.before = seconds(random);
    costs.behind = 2 * seconds(random);
    for (int stages = 1; stages <= std::min(layers, 5); ++stages) {
      const std::vector<std::int64_t> cuts = balanced_cuts(costs, stages);
      ASSERT_EQ(static_cast<int>(cuts.size()), stages);
      EXPECT_EQ(std::accumulate(cuts.begin(), cuts.end(), std::int64_t{0}), layers);
      EXPECT_GE(*std::min_element(cuts.begin(), cuts.end()), 1);
      std::vector<std::int64_t> none;
      EXPECT_DOUBLE_EQ(slowest_stage(costs, cuts), least_of_all(costs, stages, none));
    }
  }
}

TEST(PipelineCuts, TakeLayersFromTheStageWithTheHead) {
  LayerCosts costs;
  costs.layers.assign(16, 1);
  costs.before = 0.1;
  costs.behind = 2;
  const std::vector<std::int64_t> cuts = balanced_cuts(costs, 4);
  EXPECT_EQ(cuts.back(), 3);
  EXPECT_DOUBLE_EQ(slowest_stage(costs, cuts), 5);
  costs.behind = 0;
  costs.before = 0;
  EXPECT_EQ(balanced_cuts(costs, 4), (std::vector<std::int64_t>{4, 4, 4, 4}));
}

TEST(PipelineCuts, GiveWhatIsLeftOverToLateStages) {
  LayerCosts costs;
  costs.layers.assign(5, 1);
  EXPECT_EQ(balanced_cuts(costs, 2), (std::vector<std::int64_t>{2, 3}));
}

}  // namespace
}  // namespace lockstep::planner
