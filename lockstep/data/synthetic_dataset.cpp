// B samples, T tokens, C planes, H W pixels, F features.
#include "lockstep/data/synthetic_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"
#include "lockstep/data/text_dataset.h"

namespace lockstep::data {
namespace {

// The problems are fixed, whatever run.seed is: runs with other seeds train on the same data.
constexpr std::uint64_t kCentreKey = 1;
constexpr std::uint64_t kNoiseKey = 2;
constexpr std::uint64_t kSampleKey = 3;
constexpr std::uint64_t kSuccessorKey = 4;

constexpr std::int64_t kLeastNoise = 1 << 16;

Rng sample_rng(SyntheticPart part, std::int64_t id) {
  return Rng(mix(kSampleKey, static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(id)));
}

void fill_normal(std::span<float> values, Rng rng) {
  for (float& value : values) value = static_cast<float>(rng.normal());
}

// A plane wave of 1 to 3 periods an edge; its phase differs by plane. In channels-last order.
void fill_wave(std::span<float> values, const std::vector<std::int64_t>& shape_CHW, Rng rng) {
  const std::int64_t C = shape_CHW[0], H = shape_CHW[1], W = shape_CHW[2];
  const double turn = 2.0 * std::numbers::pi;
  const double rise_y = turn * static_cast<double>(1 + rng.below(3)) / static_cast<double>(H);
  const double rise_x = turn * static_cast<double>(1 + rng.below(3)) / static_cast<double>(W);
  std::vector<double> phases(static_cast<std::size_t>(C));
  for (double& phase : phases) phase = turn * rng.uniform();
  auto out = values.begin();
  for (std::int64_t y = 0; y < H; ++y) {
    for (std::int64_t x = 0; x < W; ++x) {
      for (const double phase : phases) {
        *out++ = static_cast<float>(
            std::cos(rise_y * static_cast<double>(y) + rise_x * static_cast<double>(x) + phase));
      }
    }
  }
}

}  // namespace

SyntheticClasses::SyntheticClasses(std::vector<std::int64_t> shape, std::int64_t classes,
                                   std::int64_t samples, SyntheticPart part)
    : shape_(std::move(shape)),
      elements_(
          std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>())),
      classes_(classes),
      samples_(samples),
      part_(part),
      centres_(static_cast<std::size_t>(classes * elements_)),
      noise_(static_cast<std::size_t>(std::max(kLeastNoise, 2 * elements_))) {
  LOCKSTEP_CHECK(shape_.size() == 1 || shape_.size() == 3, "a sample is {F} or {C,H,W}");
  for (std::int64_t i = 0; i < classes; ++i) {
    const std::span<float> centre(centres_.data() + i * elements_,
                                  static_cast<std::size_t>(elements_));
    const Rng rng(mix(kCentreKey, static_cast<std::uint64_t>(i)));
    if (shape_.size() == 3) {
      fill_wave(centre, shape_, rng);
    } else {
      fill_normal(centre, rng);
    }
  }
  fill_normal(noise_, Rng(kNoiseKey));
}

Batch SyntheticClasses::collate(std::span<const std::int64_t> ids,
                                std::uint64_t /*augment_key*/) const {
  const auto B = static_cast<std::int64_t>(ids.size());
  std::vector<std::int64_t> batch_shape{B};
  batch_shape.insert(batch_shape.end(), shape_.begin(), shape_.end());
  at::TensorOptions options(at::kFloat);
  if (shape_.size() == 3) options = options.memory_format(at::MemoryFormat::ChannelsLast);
  Batch batch;
  batch.input = at::empty(batch_shape, options);
  batch.target = at::empty({B}, at::kLong);
  batch.samples = batch.weight = B;
  float* out = batch.input.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t id : ids) {
    LOCKSTEP_CHECK(id >= 0 && id < samples_, "no such sample");
    Rng rng = sample_rng(part_, id);
    const auto label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(classes_)));
    const float* const centre = centres_.data() + label * elements_;
    const std::uint64_t begins = noise_.size() - static_cast<std::uint64_t>(elements_) + 1;
    const float* const noise = noise_.data() + rng.below(begins);
    for (std::int64_t k = 0; k < elements_; ++k) out[k] = centre[k] + noise[k];
    out += elements_;
    *target++ = label;
  }
  return batch;
}

SyntheticTokens::SyntheticTokens(std::int64_t seq_len, std::int64_t vocab_size,
                                 std::int64_t samples, SyntheticPart part)
    : seq_len_(seq_len),
      samples_(samples),
      part_(part),
      successors_(static_cast<std::size_t>(vocab_size)) {
  Rng rng(kSuccessorKey);
  for (std::int64_t& token : successors_) {
    token = static_cast<std::int64_t>(rng.below(successors_.size()));
  }
}

Batch SyntheticTokens::collate(std::span<const std::int64_t> ids,
                               std::uint64_t /*augment_key*/) const {
  Batch batch = empty_token_batch(static_cast<std::int64_t>(ids.size()), seq_len_);
  auto* input = batch.input.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t id : ids) {
    LOCKSTEP_CHECK(id >= 0 && id < samples_, "no such sample");
    Rng rng = sample_rng(part_, id);
    auto token = static_cast<std::int64_t>(rng.below(successors_.size()));
    for (std::int64_t t = 0; t < seq_len_; ++t) {
      *input++ = token;
      const bool random = rng.below(8) == 0;
      token = random ? static_cast<std::int64_t>(rng.below(successors_.size()))
                     : successors_[static_cast<std::size_t>(token)];
      *target++ = token;
    }
  }
  return batch;
}

}  // namespace lockstep::data
