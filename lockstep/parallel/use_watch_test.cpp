#include "lockstep/parallel/use_watch.h"

#include <gtest/gtest.h>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

namespace lockstep::parallel {
namespace {

using Flags = std::vector<bool>;
using Counts = std::vector<float>;
using Names = std::vector<std::string>;

constexpr std::int64_t kAll = 2;  // micro-batches of a step, one on each of two ranks

TEST(UseWatch, AParameterThatNobodyUsesIsToldOnceAndWithoutACollective) {
  const auto group = comm::make_fake_group(0, 2);
  UseWatch watch({"a", "b"});
  const Flags here{true, false};
  watch.step(*group, {Counts{kAll, 0}, kAll, here});
  EXPECT_EQ(watch.report().never, Names{"b"});
  EXPECT_TRUE(watch.report().partly.empty());
  EXPECT_EQ(watch.take_news(), watch.report());
  EXPECT_FALSE(watch.take_news());
  watch.step(*group, {Counts{kAll, 0}, kAll, here});
  EXPECT_FALSE(watch.take_news());
  EXPECT_EQ(group->payload_bytes(), 0);
  watch.step(*group, {Counts{kAll, kAll}, kAll, Flags{true, true}});
  EXPECT_TRUE(watch.report().all_used()) << "it was used after all";
}

TEST(UseWatch, WhenAllAreUsedThereIsNoNews) {
  const auto group = comm::make_fake_group(0, 2);
  UseWatch watch({"a"});
  EXPECT_TRUE(watch.report().all_used()) << "before the first step nothing is known";
  watch.step(*group, {Counts{kAll}, kAll, Flags{true}});
  EXPECT_FALSE(watch.take_news());
}

TEST(UseWatch, AllRanksLearnWhichOfThemUseAParameter) {
  test::run_ranks(4, [](comm::Group& group) {
    UseWatch watch({"all", "some", "none"});
    const bool uses = group.rank() == 1 || group.rank() == 2;
    watch.step(group, {Counts{4, 2, 0}, 4, Flags{true, uses, false}});
    const ParameterUse expected{{"none"}, {{"some", {1, 2}}}};
    EXPECT_EQ(watch.report(), expected);
    EXPECT_EQ(watch.take_news(), expected);
    const std::int64_t bytes = group.payload_bytes();
    EXPECT_GT(bytes, 0);
    watch.step(group, {Counts{4, 2, 0}, 4, Flags{true, uses, false}});
    EXPECT_EQ(group.payload_bytes(), bytes) << "nothing changed: nobody asks";
    EXPECT_FALSE(watch.take_news());
  });
}

TEST(UseWatch, ARankWithoutSamplesIsNotSaidToLeaveAnythingOut) {
  test::run_ranks(2, [](comm::Group& group) {
    UseWatch watch({"a", "b"});
    const bool ran = group.rank() == 0;
    // Two micro-batches of rank 0, of which one used b.
    watch.step(group, {Counts{2, 1}, 2, Flags{ran, ran}, ran});
    EXPECT_TRUE(watch.report().all_used());
  });
}

TEST(UseWatch, APatternThatChangesAllTheTimeCostsFewLooks) {
  test::run_ranks(2, [](comm::Group& group) {
    UseWatch watch({"even", "odd"});
    int looks = 0;
    for (int step = 0; step < 200; ++step) {
      const bool even = step % 2 == 0;
      const bool mine = group.rank() == 0;
      const std::int64_t bytes = group.payload_bytes();
      watch.step(group, {even ? Counts{1, 2} : Counts{2, 1}, 2,
                         even ? Flags{mine, true} : Flags{true, mine}});
      looks += group.payload_bytes() > bytes ? 1 : 0;
    }
    EXPECT_GE(looks, 2);
    EXPECT_LE(looks, 8);
  });
}

TEST(UseWatch, AReplicaTellsWhatItsRanksUse) {
  test::run_ranks(2, [](comm::Group& group) {
    struct Net : torch::nn::Module {
      at::Tensor trunk = register_parameter("trunk", at::ones({3}));
      at::Tensor gate = register_parameter("gate", at::ones({3}));
      at::Tensor aux = register_parameter("aux", at::ones({3}));
    } net;
    DataParallel replica(net, group, {});
    EXPECT_TRUE(replica.parameter_use().all_used());
    for (int i = 0; i < 3; ++i) {
      (void)replica.step(0.1, [&] {
        at::Tensor sum = net.trunk.sum();
        if (group.rank() == 1) sum = sum + net.gate.sum();
        return model::LossSum{sum, 1};
      });
    }
    const ParameterUse expected{{"aux"}, {{"gate", {1}}}};
    EXPECT_EQ(replica.parameter_use(), expected);
    EXPECT_EQ(to_text(replica.parameter_use()),
              "parameters without a gradient on any rank: aux; with one on some ranks only: gate "
              "(rank 1)");
  });
}

}  // namespace
}  // namespace lockstep::parallel
