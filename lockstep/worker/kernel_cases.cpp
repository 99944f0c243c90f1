// m, n, k: the sizes of Kernel.
#include "lockstep/worker/kernel_cases.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/model/fused_ops.h"
#include "lockstep/model/layers.h"
#include "lockstep/model/products.h"
#include "lockstep/optim/update.h"

namespace lockstep::worker {
namespace {

using config::Dtype;

constexpr std::uint64_t kSeed = 1;

at::ScalarType scalar_type(Dtype type) {
  if (type == Dtype::bf16) return at::kBFloat16;
  return type == Dtype::fp16 ? at::kHalf : at::kFloat;
}

std::int64_t count(double size) { return std::llround(size); }

at::Tensor random_input(at::IntArrayRef shape, Dtype type) {
  return (at::rand(shape) - 0.5).to(scalar_type(type));
}

/// Gradients flow to the parameters of `module`, in the type of the point.
template <typename Module>
std::vector<at::Tensor> cast_parameters(Module& module, Dtype type, bool keep_fp32) {
  std::vector<at::Tensor> parameters;
  for (at::Tensor& parameter : module.parameters()) {
    if (!keep_fp32) parameter.set_data(parameter.to(scalar_type(type)));
    parameters.push_back(parameter);
  }
  return parameters;
}

template <typename Module, typename Forward>
KernelOperands with_module(std::shared_ptr<Module> module, at::Tensor input, Dtype type,
                           bool keep_fp32, Forward forward) {
  KernelOperands made;
  made.input = std::move(input);
  made.input.set_requires_grad(true);
  made.parameters = cast_parameters(*module, type, keep_fp32);
  Module* raw = module.get();
  made.run = [raw, at = made.input, forward] { return forward(*raw, at); };
  made.owner = std::move(module);
  return made;
}

KernelOperands linear(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  model::Initializer init(kSeed);
  auto module = std::make_shared<model::Linear>(init, count(k), count(n));
  return with_module(
      std::move(module), random_input({count(m), count(k)}, point.type), point.type, false,
      [](const model::Linear& layer, const at::Tensor& x) { return layer.forward(x); });
}

/// Pixels of an image side as residual networks on small images have them at this width.
std::int64_t side_of(double pixels, double channels) {
  const std::int64_t side = channels >= 512 ? 4 : channels >= 256 ? 8 : channels >= 128 ? 16 : 32;
  return std::min<std::int64_t>(side, count(std::sqrt(pixels)));
}

at::Tensor random_images(double pixels, double channels, std::int64_t side, Dtype type) {
  const std::int64_t samples = std::max<std::int64_t>(1, count(pixels) / (side * side));
  return random_input({samples, count(channels), side, side}, type)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

KernelOperands convolution(const KernelPoint& point, std::int64_t kernel) {
  const auto [m, n, k] = point.size;
  model::Initializer init(kSeed);
  auto module = std::make_shared<model::Conv2d>(init, count(k), count(n), kernel, 1);
  const at::Tensor images = random_images(m, k, side_of(m, n), point.type);
  KernelOperands made =
      with_module(std::move(module), images, point.type, false,
                  [](const model::Conv2d& layer, const at::Tensor& x) { return layer.forward(x); });
  for (at::Tensor& weight : made.parameters) {
    weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return made;
}

KernelOperands batch_norm(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  auto module = std::make_shared<model::BatchNorm>(count(n));
  return with_module(
      std::move(module), random_images(m, n, side_of(m, n), point.type), point.type, true,
      [](const model::BatchNorm& layer, const at::Tensor& x) { return layer.forward(x); });
}

KernelOperands layer_norm(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  auto module = std::make_shared<model::LayerNorm>(count(n));
  return with_module(
      std::move(module), random_input({count(m), count(n)}, point.type), point.type, true,
      [](const model::LayerNorm& layer, const at::Tensor& x) { return layer.forward(x); });
}

KernelOperands embedding(const KernelPoint& point) {
  constexpr std::int64_t kRows = 8192;
  const auto [m, n, k] = point.size;
  model::Initializer init(kSeed);
  auto module = std::make_shared<model::Embedding>(init, kRows, count(n), 0.02);
  KernelOperands made;
  made.parameters = cast_parameters(*module, point.type, false);
  const at::Tensor ids = at::randint(kRows, {1, count(m)}, at::kLong);
  made.run = [raw = module.get(), ids] { return raw->forward(ids); };
  made.owner = std::move(module);
  return made;
}

/// An operator of one tensor.
template <typename Forward>
KernelOperands of_tensor(at::Tensor input, Forward forward) {
  KernelOperands made;
  made.input = std::move(input);
  made.input.set_requires_grad(true);
  made.run = [at = made.input, forward] { return forward(at); };
  return made;
}

KernelOperands attention(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  // 4 heads a sample, or as many as there are.
  const std::int64_t heads = std::min<std::int64_t>(4, count(n));
  const std::int64_t samples = count(n) / heads;
  return of_tensor(random_input({samples, count(m), 3 * heads * count(k)}, point.type),
                   [heads](const at::Tensor& qkv) { return model::causal_attention(qkv, heads); });
}

KernelOperands loss(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  const at::Tensor target = at::randint(count(n), {count(m)}, at::kLong);
  return of_tensor(random_input({count(m), count(n)}, point.type),
                   [target](const at::Tensor& x) { return model::cross_entropy_sum(x, target); });
}

/// In place, as in the models, on what the operator before it made.
KernelOperands relu(const KernelPoint& point) {
  const at::Tensor values = random_input({count(point.size[0])}, point.type);
  const at::Tensor gradient = random_input({count(point.size[0])}, point.type);
  KernelOperands made;
  made.run = [values]() mutable { return values.relu_(); };
  made.run_backward = [values, gradient] { return at::threshold_backward(gradient, values, 0); };
  return made;
}

/// In place. In backward the gradients of both uses of the shortcut's input are added.
KernelOperands sum(const KernelPoint& point) {
  const at::Tensor into = random_input({count(point.size[0])}, point.type);
  const at::Tensor other = random_input({count(point.size[0])}, point.type);
  KernelOperands made;
  made.run = [into, other]() mutable { return into.add_(other, 1e-3); };
  made.run_backward = made.run;
  return made;
}

/// Buffers of an optimizer of `elements`, and what it does with them.
struct State {
  at::Tensor master, gradient, moment1, moment2, compute;
};

KernelOperands update(const KernelPoint& point) {
  const std::int64_t elements = count(point.size[0]);
  auto state = std::make_shared<State>();
  state->master = at::rand({elements});
  state->gradient = at::rand({elements});
  if (point.kernel != Kernel::sgd) state->moment1 = at::zeros({elements});
  if (point.kernel == Kernel::adamw) state->moment2 = at::zeros({elements});
  if (point.type != Dtype::fp32) state->compute = at::zeros({elements}, at::kBFloat16);
  optim::UpdateStep step;
  step.optimizer.name =
      point.kernel == Kernel::adamw ? config::OptimizerName::adamw : config::OptimizerName::sgd;
  step.optimizer.momentum = point.kernel == Kernel::momentum ? 0.9 : 0;
  step.lr = 1e-6;
  step.step = 2;
  const auto data = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
  };
  optim::UpdateView view{data(state->master),
                         data(state->gradient),
                         data(state->moment1),
                         data(state->moment2),
                         nullptr,
                         elements,
                         point.type};
  if (state->compute.defined())
    view.compute = static_cast<std::uint16_t*>(state->compute.data_ptr());
  KernelOperands made;
  made.run = [view, step] {
    optim::update(view, step);
    return at::Tensor();
  };
  made.owner = std::move(state);
  return made;
}

KernelOperands norm_of_gradients(const KernelPoint& point) {
  const at::Tensor gradient = at::rand({count(point.size[0])});
  KernelOperands made;
  made.run = [gradient] {
    optim::NormSum sum;
    sum.add(0, {gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())}, 1);
    LOCKSTEP_CHECK(sum.norm() >= 0, "a norm below 0");
    return at::Tensor();
  };
  return made;
}

KernelOperands copy(const KernelPoint& point) {
  const at::Tensor from = at::rand({count(point.size[0])});
  const at::Tensor into = at::empty_like(from);
  KernelOperands made;
  made.run = [from, into]() mutable {
    into.copy_(from);
    return at::Tensor();
  };
  return made;
}

}  // namespace

double bytes_of(const KernelPoint& point) {
  const auto [m, n, k] = point.size;
  constexpr double kBytes = 8;  // values and their gradients
  switch (point.kernel) {
    case Kernel::linear:
      return kBytes * (m * n + m * k + n * k);
    case Kernel::convolution_3x3:
      return kBytes * (m * n + m * k + 9 * n * k);
    case Kernel::convolution_1x1:
      return kBytes * (m * n + m * k + n * k);
    case Kernel::attention:
      return kBytes * n * m * (4 * k + m);
    default:
      return 2 * kBytes * m * n;
  }
}

KernelOperands make_operands(const KernelPoint& point) {
  switch (point.kernel) {
    case Kernel::linear:
      return linear(point);
    case Kernel::convolution_3x3:
      return convolution(point, 3);
    case Kernel::convolution_1x1:
      return convolution(point, 1);
    case Kernel::attention:
      return attention(point);
    case Kernel::layer_norm:
      return layer_norm(point);
    case Kernel::batch_norm:
      return batch_norm(point);
    case Kernel::loss:
      return loss(point);
    case Kernel::embedding:
      return embedding(point);
    case Kernel::gelu:
      return of_tensor(random_input({count(point.size[0])}, point.type),
                       [](const at::Tensor& x) { return model::gelu_tanh(x); });
    case Kernel::relu:
      return relu(point);
    case Kernel::sum:
      return sum(point);
    case Kernel::dropout:
      return of_tensor(random_input({count(point.size[0])}, point.type),
                       [](const at::Tensor& x) { return at::dropout(x, 0.1, true); });
    case Kernel::adamw:
    case Kernel::sgd:
    case Kernel::momentum:
      return update(point);
    case Kernel::norm:
      return norm_of_gradients(point);
    case Kernel::copy:
      return copy(point);
    case Kernel::step:
    case Kernel::gpt_step:
    case Kernel::resnet_step:
      break;
  }
  throw Bug(__FILE__, __LINE__, "a kernel without operands");
}

}  // namespace lockstep::worker
