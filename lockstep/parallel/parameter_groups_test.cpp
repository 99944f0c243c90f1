#include "lockstep/parallel/parameter_groups.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "lockstep/parallel/data_parallel.h"

namespace lockstep::parallel {
namespace {

ParameterRule named(const std::string& group, const std::string& part, double lr_factor,
                    std::optional<double> weight_decay = std::nullopt) {
  return {group,
          [part](const std::string& name, at::IntArrayRef) {
            return name.find(part) != std::string::npos;
          },
          weight_decay, lr_factor};
}

config::OptimizerSection decaying() {
  config::OptimizerSection optimizer;
  optimizer.weight_decay = 0.5;
  return optimizer;
}

TEST(ParameterGroups, TheFirstRuleThatMatchesHoldsAndEveryParameterIsInOneGroup) {
  ParameterGroups groups({named("head", "head", 0.1), named("biases", "bias", 1, 0.0)}, decaying());
  groups.add("head.weight", {3, 4});
  groups.add("head.bias", {3});
  groups.add("stem.weight", {4, 2});
  groups.add("stem.bias", {4});
  EXPECT_EQ(groups.group_of(0), 0U);
  EXPECT_EQ(groups.group_of(1), 0U) << "both rules match; the first holds";
  EXPECT_EQ(groups.group_of(2), 2U);
  EXPECT_EQ(groups.group_of(3), 1U);
  EXPECT_EQ(groups.groups(),
            (std::vector<ParameterGroup>{
                {"head", 0.5, 0.1, 2, 15}, {"biases", 0, 1, 1, 4}, {"others", 0.5, 1, 1, 8}}));
}

TEST(ParameterGroups, DecayOfMatricesLeavesVectorsAlone) {
  config::OptimizerSection optimizer = decaying();
  EXPECT_TRUE(decay_rules(optimizer).empty());
  optimizer.decay = config::Decay::matrices;
  ParameterGroups groups({}, optimizer);
  groups.add("conv.weight", {8, 3, 3, 3});
  groups.add("bn.weight", {8});
  groups.add("scale", {});
  EXPECT_EQ(groups.groups()[groups.group_of(0)].weight_decay, 0.5);
  EXPECT_EQ(groups.groups()[groups.group_of(1)].weight_decay, 0);
  EXPECT_EQ(groups.groups()[groups.group_of(2)].weight_decay, 0);
}

/// Every parameter gets a gradient of 1.
struct Net : torch::nn::Module {
  at::Tensor matrix = register_parameter("matrix", at::full({2, 2}, 2.0));
  at::Tensor bias = register_parameter("bias", at::full({2}, 2.0));
  at::Tensor slow = register_parameter("slow", at::full({2, 2}, 2.0));
  model::LossSum loss() { return {matrix.sum() + bias.sum() + slow.sum(), 1}; }
};

TEST(ParameterGroups, TheUpdateFollowsTheRuleOfEachParameter) {
  const auto group = comm::make_gloo_group({});
  Net net;
  DataParallelOptions options;
  options.optimizer = decaying();
  options.optimizer.decay = config::Decay::matrices;
  options.rules = {named("slow", "slow", 0.25)};
  DataParallel replica(net, *group, options);
  (void)replica.step(0.1, [&] { return net.loss(); });
  // sgd: p - lr (1 + decay x p).
  EXPECT_NEAR(net.matrix[0][0].item<double>(), 2 - 0.1 * (1 + 0.5 * 2), 1e-6);
  EXPECT_NEAR(net.bias[0].item<double>(), 2 - 0.1, 1e-6);
  EXPECT_NEAR(net.slow[0][0].item<double>(), 2 - 0.025 * (1 + 0.5 * 2), 1e-6);
  EXPECT_EQ(to_text(replica.groups()),
            "slow: 1 parameter (4 elements), weight decay 0.5, rate x 0.25; no decay: 1 parameter "
            "(2 elements), weight decay 0; others: 1 parameter (4 elements), weight decay 0.5");
}

TEST(ParameterGroups, WithAdamwOnlyTheDecayOfAGroupDiffers) {
  const auto group = comm::make_gloo_group({});
  Net net;
  DataParallelOptions options;
  options.optimizer = decaying();
  options.optimizer.name = config::OptimizerName::adamw;
  options.optimizer.decay = config::Decay::matrices;
  DataParallel replica(net, *group, options);
  (void)replica.step(0.1, [&] { return net.loss(); });
  EXPECT_NEAR(net.matrix[0][0].item<double>(), 2 * (1 - 0.1 * 0.5) - 0.1, 1e-6);
  EXPECT_NEAR(net.bias[0].item<double>(), 2 - 0.1, 1e-6);
}

}  // namespace
}  // namespace lockstep::parallel
