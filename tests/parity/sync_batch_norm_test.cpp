// ResNet-20 with batch normalisation over ranks beside one rank that has the whole batch.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lockstep/model/model.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBatch = 16;
constexpr int kSteps = 6;
constexpr double kRate = 1e-4;  // larger ones amplify: docs/strategies/data_parallel.md

/// Stripes of a width that their class decides, and waves that differ from image to image.
data::Batch stripes(std::int64_t first, std::int64_t count) {
  data::Batch batch;
  batch.input = at::empty({count, 1, 28, 28});
  batch.target = at::empty({count}, at::kLong);
  float* pixel = batch.input.mutable_data_ptr<float>();
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t label = (first + b) % 10;
    batch.target[b] = label;
    for (std::int64_t i = 0; i < 28 * 28; ++i) {
      const double wave = std::sin(0.7 * static_cast<double>(i * (first + b + 1) % 1009));
      *pixel++ = static_cast<float>(wave + static_cast<double>(i % 28 * (label + 1) / 14 % 2));
    }
  }
  batch.input = batch.input.contiguous(at::MemoryFormat::ChannelsLast);
  batch.samples = batch.weight = count;
  return batch;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> tensors;  // parameters and buffers
};

/// Steps of kBatch images, of which this rank has [begin, end).
Trained train(comm::Group& group, comm::Group* statistics, std::int64_t begin, std::int64_t end,
              config::Dtype compute = config::Dtype::fp32) {
  config::RunConfig config;
  config.model.family = config::Family::resnet;
  config.optimizer.momentum = 0.9;
  config.precision.compute = compute;
  config.parallel.sync_batch_norm = true;
  parallel::ParallelPlan plan;
  plan.strategies = {"data_parallel", "sync_batch_norm"};
  plan.degree = {1, group.size(), 1};
  plan.batch = {kBatch, kBatch / group.size(), 1, group.size(), group.size(), false};
  const auto session =
      parallel::compose({config, plan, Mesh(plan.degree), {group, group, statistics}},
                        model::make_model(config.model, 0, 1), parallel::strategies());
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    session->begin_step(step);
    session->forward_backward(stripes(step * kBatch + begin, end - begin), group.rank(), true);
    const parallel::StepSums sums = session->reduce();
    trained.losses.push_back(sums.loss_sum / static_cast<double>(sums.weight));
    session->optimizer_step(kRate);
  }
  for (const parallel::SessionTensor& t : session->state()) {
    if (t.kind != parallel::SessionTensor::Kind::optimizer)
      trained.tensors[t.name] = t.tensor.clone();
  }
  return trained;
}

double worst_loss_difference(const Trained& ours, const Trained& reference) {
  double worst = 0;
  for (std::size_t i = 0; i < ours.losses.size(); ++i) {
    worst = std::max(worst, std::abs(ours.losses[i] / reference.losses[i] - 1));
  }
  return worst;
}

/// By relative L2 norm over all tensors whose name ends so.
double difference(const Trained& ours, const Trained& reference, const std::string& ending) {
  double apart = 0;
  double size = 0;
  for (const auto& [name, tensor] : reference.tensors) {
    if (!name.ends_with(ending)) continue;
    apart += (ours.tensors.at(name) - tensor).square().sum().item<double>();
    size += tensor.square().sum().item<double>();
  }
  return std::sqrt(apart / size);
}

bool same_bits_everywhere(comm::Group& group, const Trained& trained) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, tensor] : trained.tensors) flat.push_back(tensor.reshape({-1}));
  const at::Tensor mine = at::cat(flat);
  const at::Tensor first = mine.clone();
  group.broadcast(first, 0)->wait();
  return mine.equal(first);
}

void compare(comm::Group& group, const std::vector<std::int64_t>& cuts) {
  const auto statistics = test::join_another(group, "statistics");
  const auto rank = static_cast<std::size_t>(group.rank());
  const Trained ours = train(group, statistics.get(), cuts[rank], cuts[rank + 1]);
  const auto alone = comm::make_gloo_group({});
  const Trained reference = train(*alone, nullptr, 0, kBatch);
  const double losses = worst_loss_difference(ours, reference);
  const double parameters = difference(ours, reference, "weight");
  const double variances = difference(ours, reference, "running_var");
  if (group.rank() == 0) {
    std::cout << "PARITY ResNet-20, batch normalisation over " << group.size() << " ranks: losses "
              << losses << ", weights " << parameters << ", running variances " << variances
              << std::endl;
  }
  EXPECT_LT(losses, 1e-5);
  EXPECT_LT(parameters, 1e-5);
  EXPECT_LT(variances, 1e-5);
  EXPECT_LT(difference(ours, reference, "running_mean"), 1e-5);
  EXPECT_TRUE(same_bits_everywhere(group, ours));
}

TEST(SyncBatchNormParity, TwoRanksEqualOneWithTheWholeBatch) {
  test::run_ranks(2, [](comm::Group& group) { compare(group, {0, kBatch / 2, kBatch}); });
}

TEST(SyncBatchNormParity, RanksWithUnequalPartsAndWithNoneEqualOneWithTheWholeBatch) {
  test::run_ranks(4, [](comm::Group& group) { compare(group, {0, 11, 12, 12, kBatch}); });
}

TEST(SyncBatchNormParity, WithoutItTheSameSplitGivesOtherNumbers) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto alone = comm::make_gloo_group({});
    const std::int64_t half = kBatch / 2;
    const Trained whole = train(*alone, nullptr, 0, kBatch);
    const Trained part = train(*alone, nullptr, half * group.rank(), half * (group.rank() + 1));
    EXPECT_GT(worst_loss_difference(part, whole), 1e-3);  // so the tests above could fail
  });
}

TEST(SyncBatchNormParity, Bf16ComputeStaysClose) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto statistics = test::join_another(group, "statistics");
    const std::int64_t half = kBatch / 2;
    const std::int64_t begin = half * group.rank();
    const Trained ours = train(group, statistics.get(), begin, begin + half, config::Dtype::bf16);
    const auto alone = comm::make_gloo_group({});
    const Trained reference = train(*alone, nullptr, 0, kBatch, config::Dtype::bf16);
    EXPECT_LT(worst_loss_difference(ours, reference), 2e-2);  // eight bits of mantissa, 20 layers
    EXPECT_TRUE(same_bits_everywhere(group, ours));
  });
}

}  // namespace
}  // namespace lockstep
