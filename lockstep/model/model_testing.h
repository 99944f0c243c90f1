// What the tests of this folder share: small configurations, batches, and the cast of weights.
#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>

#include "lockstep/model/model.h"

namespace lockstep::model {

inline config::ModelSection small_gpt() {
  config::ModelSection config;
  config.family = config::Family::gpt;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.vocab_size = 50;
  return config;
}

inline config::ModelSection small_mlp() {
  config::ModelSection config;
  config.width = 16;
  config.layers = 2;
  config.inputs = 36;
  return config;
}

inline config::ModelSection resnet(std::int64_t depth, std::int64_t channels,
                                   std::int64_t image_size) {
  config::ModelSection config;
  config.family = config::Family::resnet;
  config.depth = depth;
  config.channels = channels;
  config.image_size = image_size;
  return config;
}

inline data::Batch tokens(std::int64_t samples, std::int64_t seq_len, std::int64_t vocab) {
  data::Batch batch;
  batch.input = at::randint(vocab, {samples, seq_len}, at::kLong);
  batch.target = at::randint(vocab, {samples, seq_len}, at::kLong);
  batch.samples = samples;
  batch.weight = samples * seq_len;
  return batch;
}

inline data::Batch images(std::int64_t samples, const config::ModelSection& config) {
  data::Batch batch;
  batch.input = at::randn({samples, config.channels, config.image_size, config.image_size});
  batch.target = at::randint(config.classes, {samples}, at::kLong);
  batch.samples = samples;
  batch.weight = samples;
  return batch;
}

/// What data-parallel training does to a model: weights become views of `type`, norms stay.
inline void cast_weights(const Model& model, at::ScalarType type) {
  for (const NamedTensor& p : named_parameters(model)) {
    if (p.keep_fp32) continue;
    at::Tensor flat = at::empty({p.tensor.numel()}, type);
    at::Tensor view = flat.as_strided(p.tensor.sizes(), p.tensor.strides());
    view.copy_(p.tensor.detach());
    p.tensor.set_data(view);
  }
}

inline at::Tensor forward(const Model& model, at::Tensor x) {
  for (const auto& block : model.blocks()) x = block->forward(x);
  return x;
}

/// Mean loss.
inline double mean_loss(const Model& model, const data::Batch& batch) {
  const LossSum loss = model.loss(forward(model, batch.input), batch);
  return loss.sum.item<double>() / static_cast<double>(loss.weight);
}

inline std::map<std::string, at::Tensor> by_name(const Model& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& t : named_parameters(model)) tensors[t.name] = t.tensor;
  for (const NamedTensor& t : named_buffers(model)) tensors[t.name] = t.tensor;
  return tensors;
}

/// ||a - b|| / ||b||
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide_b = b.to(at::kDouble);
  return (a.to(at::kDouble) - wide_b).norm().item<double>() / wide_b.norm().item<double>();
}

}  // namespace lockstep::model
