#include "lockstep/parallel/static_graph.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/data_parallel.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kWidth = 5;

/// Parameters that a step can use or leave out, each in a bucket of its own.
struct Choice : torch::nn::Module {
  at::Tensor a = register_parameter("a", at::ones({kWidth}));
  at::Tensor b = register_parameter("b", at::ones({kWidth}));
  at::Tensor c = register_parameter("c", at::ones({kWidth}));
  at::Tensor d = register_parameter("d", at::ones({kWidth}));

  model::LossSum loss(const std::string& used) {
    at::Tensor sum = at::zeros({});
    if (used.find('a') != std::string::npos) sum = sum + a.sum();
    if (used.find('b') != std::string::npos) sum = sum + 2 * b.sum();
    if (used.find('c') != std::string::npos) sum = sum + 3 * c.sum();
    return {sum, 1};
  }
};

DataParallelOptions static_options(std::int64_t leaves = 1, bool ordered = false) {
  DataParallelOptions options;
  options.reducer.static_graph = true;
  options.reducer.leaves = leaves;
  options.reducer.ordered = ordered;
  options.reducer.sizes = {4, 4, 4};  // bytes
  return options;
}

/// One step whose micro-batches use the parameters that `used` names, one word each.
void step(DataParallel& replica, Choice& net, const std::vector<std::string>& used) {
  replica.begin_step();
  for (const std::string& word : used) {
    replica.begin_micro_batch();
    replica.backward(net.loss(word));
  }
  (void)replica.reduce();
  replica.optimizer_step(0.125);
}

double first(const at::Tensor& tensor) { return tensor[0].item<double>(); }

TEST(StaticGraph, UsedOnOneRankCountsAsUsedAndStepsAreThoseWithoutThePromise) {
  for (const bool ordered : {false, true}) {
    test::run_ranks(2, [&](comm::Group& group) {
      Choice net;
      Choice plain_net;
      DataParallel replica(net, group, static_options(2, ordered));
      auto plain_options = static_options(2, ordered);
      plain_options.reducer.static_graph = false;
      DataParallel plain(plain_net, group, plain_options);
      const std::string used = group.rank() == 0 ? "ac" : "a";
      for (int i = 0; i < 4; ++i) {
        step(replica, net, {used, "a"});
        step(plain, plain_net, {used, "a"});
      }
      EXPECT_EQ(first(net.b), 1);
      EXPECT_EQ(first(net.c), 1 - 4 * 0.125 * 3 / 4);
      EXPECT_TRUE(at::equal(net.a, plain_net.a));
      EXPECT_TRUE(at::equal(net.c, plain_net.c));
    });
  }
}

/// Buckets on their way when backward has ended, but not the micro-batch, of a step like the one
/// before.
std::size_t buckets_sent_early(comm::Group& group, const DataParallelOptions& options) {
  Choice net;
  DataParallel replica(net, group, options);
  step(replica, net, {"ac"});
  replica.begin_step();
  replica.begin_micro_batch();
  net.loss("ac").sum.backward();
  const std::size_t started = replica.reducer().started_buckets();
  replica.skip();
  (void)replica.reduce();
  return started;
}

TEST(StaticGraph, BucketsDoNotWaitForWhatIsKnownToBeUnused) {
  test::run_ranks(2, [](comm::Group& group) {
    // After the first step: c, a, d, and b with the control numbers, which always go last.
    EXPECT_EQ(buckets_sent_early(group, static_options()), 3U);
    DataParallelOptions options = static_options();
    options.reducer.static_graph = false;
    EXPECT_EQ(buckets_sent_early(group, options), 2U);
  });
}

TEST(StaticGraph, AGradientForAnUnusedParameterIsAnErrorOnAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    Choice net;
    DataParallel replica(net, group, static_options());
    step(replica, net, {"ac"});
    const at::Tensor before = net.a.clone();
    const Problem problem = test::problem_of<UsageError>(
        [&] { step(replica, net, {group.rank() == 1 ? "abc" : "ac"}); });
    EXPECT_EQ(problem.code, "LS-7005");
    EXPECT_EQ(problem.where, "b");
    EXPECT_NE(problem.what.find("got a gradient on rank 1"), std::string::npos) << problem.what;
    EXPECT_TRUE(at::equal(net.a, before));
    EXPECT_EQ(first(net.b), 1);
    step(replica, net, {"ac"});  // whoever goes on can
    EXPECT_EQ(first(net.b), 1);
  });
}

TEST(StaticGraph, AMissingGradientOnOneRankIsAnErrorOnAllRanks) {
  test::run_ranks(2, [](comm::Group& group) {
    Choice net;
    DataParallel replica(net, group, static_options(2));
    step(replica, net, {"a", "ac"});
    const at::Tensor before = net.a.clone();
    step(replica, net, {"ac", "a"});  // one of the micro-batches is enough
    const Problem problem = test::problem_of<UsageError>([&] {
      step(replica, net, {"a", group.rank() == 0 ? "a" : "ac"});
    });
    EXPECT_EQ(problem.code, "LS-7005");
    EXPECT_EQ(problem.where, "c");
    EXPECT_NE(problem.what.find("got no gradient on rank 0"), std::string::npos) << problem.what;
  });
}

TEST(StaticGraph, ARankWithoutSamplesBreaksNothing) {
  test::run_ranks(2, [](comm::Group& group) {
    Choice net;
    DataParallel replica(net, group, static_options());
    const auto uneven = [&](const std::string& used) {
      replica.begin_step();
      replica.begin_micro_batch();
      group.rank() == 0 ? replica.backward(net.loss(used)) : replica.skip();
      EXPECT_EQ(replica.reduce().weight, 1);
      replica.optimizer_step(0.125);
    };
    uneven("abc");  // settles nothing: rank 1 has not said what it uses
    step(replica, net, {"ab"});
    uneven("ab");
    EXPECT_THROW(step(replica, net, {"abc"}), UsageError);
  });
}

TEST(StaticGraph, SeveralBreachesAreAllNamed) {
  const std::vector<std::string> names{"weight", "bias"};
  require_static_graph(std::vector<float>{0, 0}, names);
  try {
    require_static_graph(std::vector<float>{0, 2, -1}, names);
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 2U);
    EXPECT_EQ(error.problems()[0].where, "bias");
    EXPECT_NE(error.problems()[0].what.find("got a gradient on rank 1"), std::string::npos);
    EXPECT_EQ(error.problems()[1].where, "weight");
    EXPECT_NE(error.problems()[1].what.find("got no gradient on rank 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::parallel
