#include "lockstep/model/model.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "lockstep/model/model_testing.h"

namespace lockstep::model {
namespace {

using config::Family;
using config::ModelSection;

std::int64_t parameter_count(const Model& model) {
  std::int64_t sum = 0;
  for (const NamedTensor& p : named_parameters(model)) sum += p.tensor.numel();
  return sum;
}

TEST(Model, HasTheParametersOfTheKnownNetworks) {
  EXPECT_EQ(parameter_count(*make_model(resnet(18, 3, 32), 0, 1)), 11'173'962);
  EXPECT_EQ(parameter_count(*make_model(resnet(20, 1, 28), 0, 1)), 272'186);
  EXPECT_EQ(parameter_count(*make_model(ModelSection{}, 0, 1)), 335'114);  // 784-256-256-256-10
}

TEST(Model, AgreesWithItsStatisticsOnEveryParameterAndBuffer) {
  for (const ModelSection& config :
       {small_mlp(), resnet(18, 3, 32), resnet(20, 1, 28), small_gpt()}) {
    const ModelStats stats = model_stats(config, 16);
    const auto model = make_model(config, 16, 1);
    const auto parameters = named_parameters(*model);
    std::size_t i = 0;
    std::int64_t buffer_floats = 0;
    std::int64_t batch_norms = 0;
    ASSERT_EQ(stats.blocks.size(), model->blocks().size());
    for (std::size_t b = 0; b < stats.blocks.size(); ++b) {
      EXPECT_EQ(stats.blocks[b].name, model->block_names()[b]);
      buffer_floats += stats.blocks[b].buffer_floats;
      batch_norms += stats.blocks[b].batch_norms;
      for (const ParameterStats& expected : stats.blocks[b].parameters) {
        ASSERT_LT(i, parameters.size());
        EXPECT_EQ(parameters[i].name, expected.name);
        EXPECT_EQ(parameters[i].tensor.sizes(), at::IntArrayRef(expected.shape)) << expected.name;
        EXPECT_EQ(parameters[i].keep_fp32, expected.keep_fp32) << expected.name;
        ++i;
      }
    }
    EXPECT_EQ(i, parameters.size());
    for (const NamedTensor& buffer : named_buffers(*model)) {
      buffer_floats -= buffer.tensor.numel();
      batch_norms -= buffer.name.ends_with(".running_mean") ? 1 : 0;
      EXPECT_TRUE(buffer.keep_fp32);
    }
    EXPECT_EQ(buffer_floats, 0);
    EXPECT_EQ(batch_norms, 0);
  }
}

TEST(Model, NamesEveryTensorOnceAndTheTiedWeightTwice) {
  const auto model = make_model(small_gpt(), 16, 1);
  std::set<std::string> names;
  for (const NamedTensor& p : named_parameters(*model)) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    if (p.name == "embed.wte.weight") {
      EXPECT_EQ(p.aliases, std::vector<std::string>{"head.wte.weight"});
    } else {
      EXPECT_TRUE(p.aliases.empty()) << p.name;
    }
  }
}

TEST(Model, StartsFromTheSeedAloneWhateverTheThreads) {
  const auto one = by_name(*make_model(small_gpt(), 16, 7));
  at::set_num_threads(2);
  at::manual_seed(123);
  const auto two = by_name(*make_model(small_gpt(), 16, 7));
  at::set_num_threads(1);
  const auto other = by_name(*make_model(small_gpt(), 16, 8));
  for (const auto& [name, tensor] : one) EXPECT_TRUE(tensor.equal(two.at(name))) << name;
  EXPECT_FALSE(one.at("embed.wte.weight").equal(other.at("embed.wte.weight")));
}

TEST(Model, DrawsFirstWeightsAsPyTorchDoes) {
  const auto mlp = by_name(*make_model(ModelSection{}, 0, 1));
  const at::Tensor weight = mlp.at("layers.0.fc.weight");
  const double bound = 1 / std::sqrt(784.0);
  EXPECT_LE(weight.abs().max().item<double>(), bound * 1.0001);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.01 * bound);
  EXPECT_FALSE(mlp.at("layers.1.fc.weight").equal(mlp.at("layers.2.fc.weight")));
  ModelSection config = small_gpt();
  config.width = 128;
  const auto gpt = by_name(*make_model(config, 16, 1));
  EXPECT_NEAR(gpt.at("blocks.0.qkv.weight").std().item<double>(), 0.02, 0.0005);
  EXPECT_NEAR(gpt.at("blocks.0.proj.weight").std().item<double>(), 0.01, 0.0005);  // 0.02 / sqrt(4)
  EXPECT_NEAR(gpt.at("blocks.0.qkv.weight").mean().item<double>(), 0, 0.0005);
  EXPECT_EQ(gpt.at("blocks.0.qkv.bias").abs().max().item<double>(), 0);
}

TEST(Model, RefusesAModelThatCannotBe) {
  EXPECT_THROW((void)make_model(resnet(19, 3, 32), 0, 1), UsageError);
}

TEST(Mlp, ComputesTheLayersOfThePlainNetwork) {
  const auto model = make_model(small_mlp(), 0, 1);
  const auto t = by_name(*model);
  const at::Tensor x = at::randn({5, 1, 6, 6});
  at::Tensor y = x.flatten(1);
  y = at::linear(y, t.at("layers.0.fc.weight"), t.at("layers.0.fc.bias")).relu();
  y = at::linear(y, t.at("layers.1.fc.weight"), t.at("layers.1.fc.bias")).relu();
  y = at::linear(y, t.at("head.fc.weight"), t.at("head.fc.bias"));
  EXPECT_TRUE(forward(*model, x).equal(y));
}

/// The basic block spelt out, nothing in place. x [B,C,H,W].
at::Tensor plain_block(const std::map<std::string, at::Tensor>& t, const std::string& block,
                       const at::Tensor& x, std::int64_t stride) {
  const auto conv = [&](const at::Tensor& in, const std::string& name, std::int64_t s,
                        std::int64_t pad) {
    return at::conv2d(in, t.at(block + "." + name + ".weight"), {}, {s, s}, {pad, pad});
  };
  const auto norm = [&](const at::Tensor& in, const std::string& name) {
    const std::string prefix = block + "." + name;
    return at::batch_norm(in, t.at(prefix + ".weight"), t.at(prefix + ".bias"), {}, {}, true, 0.1,
                          1e-5, false);
  };
  at::Tensor y = norm(conv(x, "conv1", stride, 1), "bn1").relu();
  y = norm(conv(y, "conv2", 1, 1), "bn2");
  const bool shortcut = t.count(block + ".shortcut_conv.weight") > 0;
  return (y + (shortcut ? norm(conv(x, "shortcut_conv", stride, 0), "shortcut_bn") : x)).relu();
}

TEST(Resnet, BlocksComputeThePlainFormulaAndItsGradients) {
  const auto model = make_model(resnet(20, 1, 28), 0, 1);
  const auto t = by_name(*model);
  for (const auto& [index, width, stride] :
       std::vector<std::tuple<std::size_t, std::int64_t, std::int64_t>>{{1, 16, 1}, {4, 16, 2}}) {
    const std::string& name = model->block_names()[index];
    at::Tensor x = at::randn({4, width, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
    x.requires_grad_();
    const at::Tensor before = x.detach().clone();
    const at::Tensor ours = model->blocks()[index]->forward(x);
    ours.square().sum().backward();
    const at::Tensor our_gradient = x.grad().clone();
    const at::Tensor our_weight = t.at(name + ".conv1.weight").grad().clone();
    x.mutable_grad().reset();
    t.at(name + ".conv1.weight").mutable_grad().reset();
    const at::Tensor plain = plain_block(t, name, x, stride);
    plain.square().sum().backward();
    EXPECT_TRUE(x.detach().equal(before)) << name << " changed its input";
    EXPECT_LT(relative_error(ours, plain), 1e-6) << name;
    EXPECT_LT(relative_error(our_gradient, x.grad()), 1e-5) << name;
    EXPECT_LT(relative_error(our_weight, t.at(name + ".conv1.weight").grad()), 1e-5) << name;
    EXPECT_TRUE(ours.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(Resnet, StaysChannelsLastFromOnePlaneOn) {
  const auto model = make_model(resnet(20, 1, 28), 0, 1);
  EXPECT_TRUE(
      by_name(*model).at("stage2.0.conv1.weight").is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor y = model->blocks().front()->forward(at::randn({2, 1, 28, 28}));
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(y.stride(1), 1);
}

TEST(Resnet, LearnsRunningStatisticsAndUsesThemInEvaluation) {
  const auto model = make_model(resnet(20, 1, 28), 0, 1);
  const auto t = by_name(*model);
  const data::Batch batch = images(8, resnet(20, 1, 28));
  const double training = mean_loss(*model, batch);
  EXPECT_GT(t.at("stem.bn.running_mean").abs().max().item<double>(), 0);
  for (const auto& block : model->blocks()) block->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor mean = t.at("stem.bn.running_mean").clone();
  EXPECT_NE(mean_loss(*model, batch), training);
  EXPECT_TRUE(mean.equal(t.at("stem.bn.running_mean")));
}

/// The transformer block spelt out with its softmax; x [B,T,C].
at::Tensor plain_gpt_block(const std::map<std::string, at::Tensor>& t, const at::Tensor& x,
                           std::int64_t heads) {
  const auto p = [&](const std::string& name) { return t.at("blocks.0." + name); };
  const auto norm = [&](const at::Tensor& in, const std::string& name) {
    return at::layer_norm(in, {in.size(2)}, p(name + ".weight"), p(name + ".bias"));
  };
  const auto linear = [&](const at::Tensor& in, const std::string& name) {
    return at::linear(in, p(name + ".weight"), p(name + ".bias"));
  };
  const std::int64_t tokens = x.size(1);
  const std::int64_t width = x.size(2);
  const auto qkv = linear(norm(x, "ln1"), "qkv")
                       .reshape({x.size(0), tokens, 3, heads, width / heads})
                       .permute({2, 0, 3, 1, 4});  // [3,B,n,T,d]
  at::Tensor scores = qkv[0].matmul(qkv[1].transpose(2, 3)) / std::sqrt(double(width / heads));
  const at::Tensor hidden = at::ones({tokens, tokens}, at::kBool).triu(1);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor mixed = scores.softmax(-1).matmul(qkv[2]).transpose(1, 2).reshape(x.sizes());
  const at::Tensor h = x + linear(mixed, "proj");
  return h + linear(at::gelu(linear(norm(h, "ln2"), "fc1"), "tanh"), "fc2");
}

TEST(Gpt, BlocksComputeThePlainFormulaAndItsGradients) {
  const auto model = make_model(small_gpt(), 16, 1);
  const auto t = by_name(*model);
  at::Tensor x = at::randn({3, 16, 32});
  x.requires_grad_();
  const at::Tensor ours = model->blocks()[1]->forward(x);
  ours.square().sum().backward();
  const at::Tensor our_gradient = x.grad().clone();
  const at::Tensor our_weight = t.at("blocks.0.qkv.weight").grad().clone();
  x.mutable_grad().reset();
  t.at("blocks.0.qkv.weight").mutable_grad().reset();
  const at::Tensor plain = plain_gpt_block(t, x, 4);
  plain.square().sum().backward();
  EXPECT_LT(relative_error(ours, plain), 1e-5);
  EXPECT_LT(relative_error(our_gradient, x.grad()), 1e-5);
  EXPECT_LT(relative_error(our_weight, t.at("blocks.0.qkv.weight").grad()), 1e-5);
}

TEST(Gpt, NeverLooksAtLaterTokens) {
  const auto model = make_model(small_gpt(), 16, 1);
  const at::NoGradGuard no_grad;
  at::Tensor ids = at::randint(50, {1, 16}, at::kLong);
  const at::Tensor before = forward(*model, ids);
  ids[0][10] = (ids[0][10] + 1) % 50;
  const at::Tensor after = forward(*model, ids);
  EXPECT_TRUE(before.narrow(1, 0, 10).equal(after.narrow(1, 0, 10)));
  EXPECT_FALSE(before.narrow(1, 10, 6).equal(after.narrow(1, 10, 6)));
}

TEST(Gpt, AddsBothGradientsOfTheTiedWeight) {
  const auto model = make_model(small_gpt(), 16, 1);
  data::Batch batch = tokens(2, 16, 25);  // the upper half of the vocabulary is never read
  model->loss(forward(*model, batch.input), batch).sum.backward();
  const at::Tensor gradient = by_name(*model).at("embed.wte.weight").grad();
  EXPECT_GT(gradient.narrow(0, 25, 25).abs().max().item<double>(), 0);  // from the head alone
  EXPECT_GT(gradient.narrow(0, 0, 25).norm().item<double>(),
            gradient.narrow(0, 25, 25).norm().item<double>());
}

TEST(Gpt, DropsOnlyWhileTrainingAndBySeed) {
  ModelSection config = small_gpt();
  config.dropout = 0.5;
  const auto model = make_model(config, 16, 1);
  const auto& block = model->blocks()[1];
  EXPECT_TRUE(block->draws_random());
  EXPECT_FALSE(model->blocks().back()->draws_random());
  const at::Tensor x = at::randn({2, 16, 32});
  at::manual_seed(3);
  const at::Tensor first = block->forward(x);
  const at::Tensor other = block->forward(x);
  at::manual_seed(3);
  EXPECT_TRUE(first.equal(block->forward(x)));
  EXPECT_FALSE(first.equal(other));
  block->eval();
  EXPECT_FALSE(block->draws_random());
  EXPECT_TRUE(block->forward(x).equal(block->forward(x)));
}

TEST(Model, ComputesInBf16AndFp16CloseToFp32) {
  struct Case {
    ModelSection config;
    data::Batch batch;
  };
  const ModelSection images20 = resnet(20, 1, 28);
  ModelSection mlp;
  data::Batch features = images(16, images20);
  for (const Case& c : {Case{mlp, features}, Case{images20, images(16, images20)},
                        Case{small_gpt(), tokens(4, 16, 50)}}) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const auto model = make_model(c.config, 16, 1);
      const double fp32 = mean_loss(*model, c.batch);
      cast_weights(*model, type);
      const at::Tensor output = forward(*model, c.batch.input);
      EXPECT_EQ(output.scalar_type(), type);
      const LossSum loss = model->loss(output, c.batch);
      EXPECT_EQ(loss.sum.scalar_type(), at::kFloat);
      // Eight or eleven bits of mantissa, 4 to 40 layers.
      const double limit = type == at::kHalf ? 0.003 : 0.02;
      EXPECT_NEAR(loss.sum.item<double>() / static_cast<double>(loss.weight), fp32, limit * fp32);
      loss.sum.backward();
      for (const NamedTensor& p : named_parameters(*model)) {
        ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
        EXPECT_EQ(p.tensor.grad().scalar_type(), p.keep_fp32 ? at::kFloat : type) << p.name;
        EXPECT_TRUE(p.tensor.grad().isfinite().all().item<bool>()) << p.name;
      }
    }
  }
}

TEST(Model, EvaluatesLossAndRightPredictions) {
  const auto model = make_model(small_mlp(), 0, 1);
  data::Batch batch;
  batch.target = at::tensor({2, 0, 1}, at::kLong);
  batch.samples = batch.weight = 3;
  const at::Tensor logits =
      at::tensor({0., 0., 9., 9., 0., 0., 0., 0., 9.}, at::kFloat).view({3, 3});
  const EvalSum eval = model->evaluate(logits, batch);
  EXPECT_EQ(eval.correct, 2);
  EXPECT_EQ(eval.weight, 3);
  EXPECT_NEAR(eval.loss_sum, 9.000740, 1e-5);
}

}  // namespace
}  // namespace lockstep::model
