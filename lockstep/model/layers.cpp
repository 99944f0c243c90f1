#include "lockstep/model/layers.h"

#include <ATen/ATen.h>

#include "lockstep/model/fused_ops.h"
#include "lockstep/model/products.h"

namespace lockstep::model {
namespace {

constexpr double kNormEps = 1e-5;
constexpr double kBatchNormMomentum = 0.1;

}  // namespace

Linear::Linear(Initializer& init, std::int64_t inputs, std::int64_t outputs)
    : weight(register_parameter("weight", init.kaiming_uniform({outputs, inputs}, inputs))),
      bias(register_parameter("bias", init.kaiming_uniform({outputs}, inputs))) {}

Linear::Linear(Initializer& init, std::int64_t inputs, std::int64_t outputs, double std_deviation)
    : weight(register_parameter("weight", init.normal({outputs, inputs}, std_deviation))),
      bias(register_parameter("bias", Initializer::constant({outputs}, 0))) {}

at::Tensor Linear::forward(const at::Tensor& input) const {
  return apply_linear(input, weight, bias);
}

at::Tensor Linear::forward_relu(const at::Tensor& input) const {
  return apply_linear_relu(input, weight, bias);
}

Conv2d::Conv2d(Initializer& init, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
               std::int64_t stride)
    : weight(register_parameter("weight", init.kaiming_uniform({outputs, inputs, kernel, kernel},
                                                               inputs * kernel * kernel)
                                              .contiguous(at::MemoryFormat::ChannelsLast))),
      stride_(stride),
      padding_(kernel / 2) {}

at::Tensor Conv2d::forward(const at::Tensor& input_BCHW) const {
  return apply_conv2d(input_BCHW, weight, stride_, padding_);
}

BatchNorm::BatchNorm(std::int64_t channels)
    : weight(register_parameter("weight", Initializer::constant({channels}, 1))),
      bias(register_parameter("bias", Initializer::constant({channels}, 0))),
      running_mean(register_buffer("running_mean", Initializer::constant({channels}, 0))),
      running_var(register_buffer("running_var", Initializer::constant({channels}, 1))) {}

at::Tensor BatchNorm::forward(const at::Tensor& input_BCHW) const {
  if (exchange_ && is_training()) {
    return batch_norm_over_ranks(input_BCHW, {weight, bias, running_mean, running_var},
                                 {kBatchNormMomentum, kNormEps}, exchange_);
  }
  return at::batch_norm(input_BCHW, weight, bias, running_mean, running_var, is_training(),
                        kBatchNormMomentum, kNormEps, /*cudnn_enabled=*/true);
}

LayerNorm::LayerNorm(std::int64_t width)
    : weight(register_parameter("weight", Initializer::constant({width}, 1))),
      bias(register_parameter("bias", Initializer::constant({width}, 0))) {}

at::Tensor LayerNorm::forward(const at::Tensor& input) const {
  return at::layer_norm(input, weight.sizes(), weight, bias, kNormEps);
}

Embedding::Embedding(Initializer& init, std::int64_t rows, std::int64_t width, double std_deviation)
    : weight(register_parameter("weight", init.normal({rows, width}, std_deviation))) {}

at::Tensor Embedding::forward(const at::Tensor& ids_BT) const { return embed_rows(weight, ids_BT); }

at::Tensor as_weight(const at::Tensor& input, const at::Tensor& weight) {
  return input.to(weight.scalar_type());
}

}  // namespace lockstep::model
