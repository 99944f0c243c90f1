// Ties the activation bytes of model/stats to what autograd keeps, as the allocator sees it.
#include <gtest/gtest.h>

#include "lockstep/memory/category.h"
#include "lockstep/model/model_testing.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

using config::ModelSection;

struct Bytes {
  double kept = 0;
  double peak = 0;
};

std::int64_t activation_bytes(const std::array<std::int64_t, memory::kCategoryCount>& bytes) {
  return bytes.at(static_cast<std::size_t>(memory::Category::activations));
}

/// Bytes under Category::activations after forward, and at the peak of forward and backward.
Bytes measure(const ModelSection& config, const data::Batch& batch, at::ScalarType type,
              std::int64_t seq_len) {
  memory::install();
  const auto model = make_model(config, seq_len, 1);
  if (type != at::kFloat) cast_weights(*model, type);
  const std::int64_t before = activation_bytes(memory::usage().current_bytes);
  memory::reset_peak();
  const memory::Scope scope(memory::Category::activations);
  const LossSum loss = model->loss(forward(*model, batch.input), batch);
  Bytes bytes;
  bytes.kept = static_cast<double>(activation_bytes(memory::usage().current_bytes) - before);
  const auto parameters = named_parameters(*model);
  loss.sum.backward();
  bytes.peak = static_cast<double>(activation_bytes(memory::usage().peak_bytes) - before);
  return bytes;
}

double planned_kept(const ModelSection& config, std::int64_t samples, at::ScalarType type,
                    std::int64_t seq_len) {
  const bool narrow = type != at::kFloat;
  double bytes = 0;
  for (const BlockStats& block : model_stats(config, seq_len).blocks) {
    const double elements = block.activation_elements + (narrow ? block.cast_input_elements : 0);
    bytes += elements * (narrow ? 2 : 4) + block.activation_fp32_bytes;
  }
  return bytes * static_cast<double>(samples);
}

void expect_planned(const ModelSection& config, const data::Batch& batch,
                    std::int64_t seq_len = 64) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Bytes measured = measure(config, batch, type, seq_len);
    const double planned = planned_kept(config, batch.samples, type, seq_len);
    // Blocks are rounded up to 64 bytes, and small statistics are not planned.
    EXPECT_NEAR(measured.kept / planned, 1, 0.03) << c10::toString(type);
    EXPECT_GT(measured.peak, measured.kept);
  }
}

TEST(Activations, ArePlannedForResnetWithinThreePercent) {
  const ModelSection config = resnet(20, 3, 16);
  expect_planned(config, images(16, config));
}

TEST(Activations, ArePlannedForGptWithinThreePercent) {
  ModelSection config = small_gpt();
  config.width = 64;
  config.vocab_size = 300;
  expect_planned(config, tokens(4, 64, 300));
  expect_planned(config, tokens(1, 200, 300), 200);
  expect_planned(config, tokens(1, kMostAttended + 64, 300), kMostAttended + 64);
  config.dropout = 0.1;
  expect_planned(config, tokens(4, 64, 300));
}

TEST(Activations, ArePlannedForMlpWithinThreePercent) {
  // In fp32 the first layer keeps the batch itself, which lies under buffers; else a cast of it.
  ModelSection config = small_mlp();
  config.width = 256;
  expect_planned(config, images(64, resnet(20, 1, 6)));
}

}  // namespace
}  // namespace lockstep::model
