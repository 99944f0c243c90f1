// Local SGD: ranks that update alone and average now and then.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/parallel/data_parallel.h"
#include "tests/support/rank_processes.h"

namespace lockstep::parallel {
namespace {

constexpr double kRate = 0.1;

DataParallelOptions options_of(std::int64_t every, std::int64_t from) {
  DataParallelOptions options;
  options.optimizer.momentum = 0.9;
  options.local = {every, from};
  return options;
}

at::Tensor weights(DataParallel& replica) { return replica.parameters().states().front().clone(); }

bool equal_on_all_ranks(comm::Group& group, const at::Tensor& tensor) {
  const at::Tensor all = at::empty({group.size(), tensor.numel()});
  group.all_gather(all, tensor)->wait();
  return at::equal(all[0], all[group.size() - 1]);
}

at::Tensor inputs(int rank, int step) {
  return ((at::arange(8 * 5, at::kFloat) * 0.37F + static_cast<float>(rank * 3 + step)).sin())
      .view({8, 5});
}

double train(DataParallel& replica, torch::nn::Linear& net, int rank, int step) {
  return replica.step(kRate, [&] {
    const at::Tensor x = inputs(rank, step);
    return model::LossSum{(net->forward(x) - x.narrow(1, 0, 3)).square().sum(), 8};
  });
}

TEST(LocalSteps, RanksDifferBetweenAveragesAndAgreeAfterThem) {
  test::run_ranks(2, [](comm::Group& group) {
    torch::nn::Linear net(5, 3);
    DataParallel replica(*net, group, options_of(4, 2));
    double first = 0;
    double last = 0;
    for (int step = 0; step < 40; ++step) {
      last = train(replica, net, group.rank(), step);
      if (step == 0) first = last;
      const bool agreed = step < 2 || (step + 1) % 4 == 0;
      EXPECT_EQ(equal_on_all_ranks(group, weights(replica)), agreed) << step;
    }
    EXPECT_LT(last, first / 2);
  });
}

TEST(LocalSteps, AnAverageIsTheMeanOfWhatRanksTrainedAlone) {
  test::run_ranks(2, [](comm::Group& group) {
    torch::nn::Linear net(5, 3);
    DataParallel replica(*net, group, options_of(3, 0));
    const at::Tensor start = weights(replica);
    for (int step = 0; step < 3; ++step) (void)train(replica, net, group.rank(), step);
    at::Tensor mean = at::zeros_like(start);
    for (int rank = 0; rank < 2; ++rank) {  // the same alone
      const auto alone_group = comm::make_group({});
      torch::nn::Linear alone_net(5, 3);
      DataParallel alone(*alone_net, *alone_group, options_of(1, 0));
      alone.parameters().states().front().copy_(start);
      for (int step = 0; step < 3; ++step) (void)train(alone, alone_net, rank, step);
      mean += weights(alone) / 2;
    }
    EXPECT_TRUE(at::allclose(weights(replica), mean, 1e-6, 1e-7));
  });
}

TEST(LocalSteps, SendFarLessThanSums) {
  test::run_ranks(2, [](comm::Group& group) {
    torch::nn::Linear net(1000, 300);
    DataParallel replica(*net, group, options_of(5, 0));
    const auto one_step = [&](std::int64_t samples) {
      const std::int64_t before = group.payload_bytes();
      (void)replica.step(kRate, [&] {
        return model::LossSum{net->forward(at::ones({samples, 1000})).sum(), samples};
      });
      return group.payload_bytes() - before;
    };
    const std::int64_t state = 4 * replica.parameters().layout().total;
    for (int step = 1; step <= 10; ++step) {
      const std::int64_t sent = one_step(1);
      EXPECT_LT(sent, step % 5 == 0 ? 2 * state + 10'000 : 10'000) << step;
    }
  });
}

TEST(LocalSteps, SettleMakesOneStateAndClippingIsAgreed) {
  test::run_ranks(2, [](comm::Group& group) {
    torch::nn::Linear net(5, 3);
    DataParallel replica(*net, group, options_of(100, 0));
    replica.begin_step();
    replica.begin_micro_batch();
    const at::Tensor x = inputs(group.rank(), 0) * static_cast<float>(1 + 10 * group.rank());
    replica.backward({net->forward(x).square().sum(), 8});
    EXPECT_EQ(replica.reduce().weight, 16);
    const double norm = replica.clip_grad_norm(1.0);
    EXPECT_TRUE(equal_on_all_ranks(group, at::full({1}, norm, at::kFloat)));
    EXPECT_TRUE(replica.optimizer_step(kRate));
    EXPECT_FALSE(equal_on_all_ranks(group, weights(replica)));
    replica.settle();
    EXPECT_TRUE(equal_on_all_ranks(group, weights(replica)));
    const std::int64_t before = group.payload_bytes();
    replica.settle();
    EXPECT_EQ(group.payload_bytes(), before) << "there is nothing to do";
  });
}

TEST(LocalSteps, ARankWithoutSamplesStaysAndJoins) {
  test::run_ranks(2, [](comm::Group& group) {
    torch::nn::Linear net(5, 3);
    DataParallel replica(*net, group, options_of(100, 0));
    const at::Tensor before = weights(replica);
    (void)replica.step(kRate, [&] {
      if (group.rank() == 1) return model::LossSum{};
      return model::LossSum{net->forward(inputs(0, 0)).square().sum(), 8};
    });
    EXPECT_EQ(at::equal(weights(replica), before), group.rank() == 1);
    EXPECT_EQ(replica.updates(), 1);
  });
}

}  // namespace
}  // namespace lockstep::parallel
