// The layers that model families are made of. Parameters are fp32 at first; a caller may replace
// their data in place (set_data) by views of flat buffers, also in bf16 or fp16: each forward
// follows its weight.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <utility>

#include "lockstep/model/batch_norm.h"
#include "lockstep/model/init.h"

namespace lockstep::model {

// B samples, T tokens, C channels or features, H W pixels.

class Linear : public torch::nn::Module {
 public:
  Linear(Initializer& init, std::int64_t inputs, std::int64_t outputs);
  /// Normal weights of `std_deviation` and zero biases (GPT-2; Radford et al. 2019).
  Linear(Initializer& init, std::int64_t inputs, std::int64_t outputs, double std_deviation);
  /// [..., inputs] -> [..., outputs].
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor forward_relu(const at::Tensor& input) const;

  at::Tensor weight;  // [outputs, inputs]
  at::Tensor bias;    // [outputs]
};

/// Convolution without bias, padded to keep the image size at stride 1. Channels-last.
class Conv2d : public torch::nn::Module {
 public:
  Conv2d(Initializer& init, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
         std::int64_t stride);
  [[nodiscard]] at::Tensor forward(const at::Tensor& input_BCHW) const;

  at::Tensor weight;  // [outputs, inputs, kernel, kernel], channels-last

 private:
  std::int64_t stride_;
  std::int64_t padding_;
};

/// Batch normalisation (Ioffe and Szegedy 2015), momentum 0.1. Weights and statistics stay fp32 for
/// narrower input.
class BatchNorm : public torch::nn::Module {
 public:
  explicit BatchNorm(std::int64_t channels);
  [[nodiscard]] at::Tensor forward(const at::Tensor& input_BCHW) const;
  /// Training then normalises by the samples of all ranks; null: of this rank alone.
  void set_exchange(SharedExchange exchange) { exchange_ = std::move(exchange); }

  at::Tensor weight;        // [C]
  at::Tensor bias;          // [C]
  at::Tensor running_mean;  // [C] buffer
  at::Tensor running_var;   // [C] buffer

 private:
  SharedExchange exchange_;
};

/// Layer normalisation over the last dim (Ba et al. 2016). Weights stay fp32 for narrower input.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(std::int64_t width);
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

  at::Tensor weight;  // [C]
  at::Tensor bias;    // [C]
};

class Embedding : public torch::nn::Module {
 public:
  Embedding(Initializer& init, std::int64_t rows, std::int64_t width, double std_deviation);
  /// [B,T] int64 -> [B,T,C].
  [[nodiscard]] at::Tensor forward(const at::Tensor& ids_BT) const;

  at::Tensor weight;  // [rows, C]
};

/// `input` in the dtype of `weight`: the one cast, at the first block.
[[nodiscard]] at::Tensor as_weight(const at::Tensor& input, const at::Tensor& weight);

}  // namespace lockstep::model
