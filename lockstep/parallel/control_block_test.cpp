#include "lockstep/parallel/control_block.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::parallel {
namespace {

TEST(ControlBlock, SumsOfTwoRanksComeBackWhole) {
  const ControlBlock control(2, 3, 5);
  std::vector<float> a(static_cast<std::size_t>(control.size()));
  std::vector<float> b = a;
  control.set_loss(a, 1.5, 40'000'001);
  control.set_loss(b, 2.25, 60'000'002);
  control.set_control(a, 0, {1, 0, {1, 2, 3, 4, 5, 6}, 1, {}});
  control.set_control(b, 1, {0, 1, {6, 5, 4, 3, 2, 1}, 1, {NotFiniteAt::Kind::gradient, 2}, -3});
  control.set_used(a, 1, true);
  control.set_used(b, 1, true);
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus<>());
  const StepSums sums = control.sums(a);
  EXPECT_EQ(sums.loss_sum, 3.75);
  EXPECT_EQ(sums.weight, 100'000'003);
  EXPECT_EQ(sums.stop_votes, 1);
  EXPECT_EQ(sums.restore_votes, 1);
  EXPECT_EQ(sums.abandon_votes, 2);
  EXPECT_EQ(sums.times[0], (RankTimes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(sums.times[1], (RankTimes{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(sums.not_finite[0].kind, NotFiniteAt::Kind::nowhere);
  EXPECT_EQ(sums.not_finite[1].kind, NotFiniteAt::Kind::gradient);
  EXPECT_EQ(sums.not_finite[1].index, 2);
  EXPECT_FALSE(control.used(a, 0));
  EXPECT_TRUE(control.used(a, 1));
  EXPECT_EQ(sums.micro_batches, 2);
  EXPECT_EQ(control.uses(a).size(), 3U);
  EXPECT_EQ(control.uses(a)[1], 2);
  EXPECT_EQ(control.breaches(a).size(), 2U);
  EXPECT_EQ(control.breaches(a)[0], 0);
  EXPECT_EQ(control.breaches(a)[1], -3);
}

TEST(ControlBlock, NamesTheRankThatRanOutOfMemoryWhereItIsTheOnlyOne) {
  const ControlBlock control(3, 1, 0);
  std::vector<float> sum(static_cast<std::size_t>(control.size()));
  const auto add = [&](int rank, int votes) {
    std::vector<float> block(sum.size());
    StepControl own;
    own.memory_votes = votes;
    control.set_control(block, rank, own);
    std::transform(sum.begin(), sum.end(), block.begin(), sum.begin(), std::plus<>());
  };
  add(0, 0);
  EXPECT_EQ(control.sums(sum).memory_votes, 0);
  EXPECT_EQ(control.sums(sum).memory_rank, -1);
  add(2, 1);
  EXPECT_EQ(control.sums(sum).memory_votes, 1);
  EXPECT_EQ(control.sums(sum).memory_rank, 2);
  add(1, 1);
  EXPECT_EQ(control.sums(sum).memory_votes, 2);
  EXPECT_EQ(control.sums(sum).memory_rank, -1);
}

TEST(ControlBlock, WhereAStepWasNotFiniteTravelsAsOneExactNumber) {
  using Kind = NotFiniteAt::Kind;
  for (const Kind kind : {Kind::nowhere, Kind::loss, Kind::output, Kind::gradient}) {
    for (const std::int64_t index : {0, 1, 77, 4'000'000}) {
      const NotFiniteAt back = NotFiniteAt::from_number(NotFiniteAt{kind, index}.to_number());
      EXPECT_EQ(back.kind, kind);
      EXPECT_EQ(back.index, index);
    }
  }
}

TEST(ControlBlock, BuffersDoNotOverlapTheOtherFields) {
  const ControlBlock control(1, 2, 4);
  std::vector<float> block(static_cast<std::size_t>(control.size()), 0.0F);
  std::ranges::fill(control.buffers(block), 9.0F);
  const StepSums sums = control.sums(block);
  EXPECT_EQ(sums.loss_sum, 0);
  EXPECT_EQ(sums.weight, 0);
  EXPECT_FALSE(control.used(block, 1));
  EXPECT_EQ(control.buffers(block).size(), 4U);
}

}  // namespace
}  // namespace lockstep::parallel
