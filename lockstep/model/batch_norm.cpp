#include "lockstep/model/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/norm_kernel.h"
#include "lockstep/model/tensor_element.h"

namespace lockstep::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr std::int64_t kChunkElements = 1
                                        << 15;  // worth a thread; cut alike for any number of them
constexpr std::int64_t kFewestRows = 32;        // of a chunk of rows
const auto kFp64 = at::TensorOptions(at::kDouble);

/// How our loops see the memory of a dense tensor; nullopt for types and devices that they do not
/// take, which ATen's operators do.
std::optional<ChannelShape> shape_for_loops(const at::Tensor& input) {
  if (!input.is_cpu() || input.scalar_type() == at::kDouble) return std::nullopt;
  const std::int64_t channels = input.size(1);
  const std::int64_t rows = channels == 0 ? 0 : input.numel() / channels;
  const std::int64_t inner = rows == 0 ? 1 : rows / input.size(0);
  if (inner > 1 && input.is_contiguous()) return ChannelShape{input.size(0), channels, inner};
  return ChannelShape{rows, channels, 1};
}

std::int64_t chunk_of(const ChannelShape& shape) {
  const std::int64_t chunk =
      kChunkElements / std::max<std::int64_t>(1, shape.channels * shape.inner);
  return std::max(chunk, shape.inner == 1 ? kFewestRows : 1);
}

std::int64_t chunks_of(const ChannelShape& shape) {
  const std::int64_t chunk = chunk_of(shape);
  return (shape.outer + chunk - 1) / chunk;
}

/// body(chunk, begin, end) over the chunks, in parallel.
template <typename Body>
void over_chunks(const ChannelShape& shape, Body body) {
  const std::int64_t chunk = chunk_of(shape);
  at::parallel_for(0, chunks_of(shape), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      body(k, k * chunk, std::min(shape.outer, (k + 1) * chunk));
    }
  });
}

/// All dims but the channels.
std::vector<std::int64_t> other_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

/// [C] as [1,C,1,...], to meet the input.
at::Tensor beside(const at::Tensor& values_C, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values_C.numel();
  return values_C.view(shape);
}

/// fp32, or fp64 for fp64.
at::ScalarType wide(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Numbers of one per channel are fp64 on the CPU; only the elements are worth a device.

/// [C] of any type and device.
std::vector<double> numbers_of(const at::Tensor& values_C) {
  const at::Tensor values = values_C.cpu().contiguous();
  if (values.scalar_type() == at::kFloat) {
    const float* from = values.const_data_ptr<float>();
    return {from, from + values.numel()};
  }
  const at::Tensor wide_values = values.to(at::kDouble);
  const double* from = wide_values.const_data_ptr<double>();
  return {from, from + values.numel()};
}

/// The moments of this rank's samples: fp64 [1+2C].
at::Tensor own_moments(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const std::int64_t row = 1 + 2 * channels;
  if (input.numel() == 0) return at::zeros({row}, kFp64);
  if (const auto shape = shape_for_loops(input)) {
    at::Tensor rows = at::empty({chunks_of(*shape), row}, kFp64);
    double* out = rows.mutable_data_ptr<double>();
    by_element(input, [&](auto type) {
      over_chunks(*shape, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
        double* mine = out + chunk * row;
        mine[0] = static_cast<double>((end - begin) * shape->inner);
        channel_moments(data(input, type), *shape, begin, end, mine + 1, mine + 1 + channels);
      });
    });
    return rows.size(0) == 1 ? rows[0] : merge_moments(rows);
  }
  const at::Tensor x = input.to(wide(input));
  const at::Tensor mean = x.mean(other_dims(x), /*keepdim=*/true);
  const at::Tensor m2 = (x - mean).square().sum(other_dims(x));
  const at::Tensor count = at::full({1}, static_cast<double>(input.numel() / channels), kFp64);
  return at::cat({count, mean.flatten().to(at::kCPU, at::kDouble), m2.to(at::kCPU, at::kDouble)});
}

/// running = running (1 - momentum) + momentum x now
void move_towards(const at::Tensor& running, std::vector<double> now, double momentum) {
  const std::vector<double> before = numbers_of(running);
  for (std::size_t c = 0; c < now.size(); ++c) {
    now[c] = before[c] * (1 - momentum) + momentum * now[c];
  }
  if (running.is_cpu() && running.scalar_type() == at::kFloat && running.is_contiguous()) {
    std::copy(now.begin(), now.end(), running.mutable_data_ptr<float>());
  } else {
    running.copy_(at::tensor(now, at::kDouble));
  }
}

void move_running(const at::Tensor& merged, const BatchNormTensors& tensors, double momentum) {
  const double* count = merged.const_data_ptr<double>();
  if (*count == 0) return;
  const double* mean = count + 1;
  const double* m2 = mean + merged.numel() / 2;
  if (tensors.running_mean.defined()) move_towards(tensors.running_mean, {mean, m2}, momentum);
  if (!tensors.running_var.defined()) return;
  std::vector<double> variance(m2, count + merged.numel());
  for (double& v : variance) v /= std::max(1.0, *count - 1);
  move_towards(tensors.running_var, std::move(variance), momentum);
}

/// What backward wants to know: (count, mean [C], 1 / deviation [C]), from moments.
at::Tensor statistics_from(const at::Tensor& merged, double eps) {
  at::Tensor statistics = merged.clone();
  double* row = statistics.mutable_data_ptr<double>();
  for (std::int64_t k = 1 + merged.numel() / 2; k < merged.numel(); ++k) {
    row[k] = 1 / std::sqrt(row[k] / std::max(1.0, row[0]) + eps);
  }
  return statistics;
}

/// Of the output's formula: mean, scale and bias, [3,C] beside the input.
at::Tensor terms_of(const at::Tensor& input, const at::Tensor& statistics, const at::Tensor& weight,
                    const at::Tensor& bias) {
  const std::int64_t channels = input.size(1);
  const double* mean = statistics.const_data_ptr<double>() + 1;
  const double* inverse = mean + channels;
  const std::vector<double> factor = numbers_of(weight);
  const std::vector<double> shift = numbers_of(bias);
  at::Tensor terms = at::empty({3, channels}, kFp64);
  double* out = terms.mutable_data_ptr<double>();
  for (std::size_t c = 0; c < factor.size(); ++c) {
    out[c] = mean[c];
    out[factor.size() + c] = inverse[c] * factor[c];
    out[2 * factor.size() + c] = shift[c];
  }
  return terms.to(input.device(), wide(input));
}

at::Tensor normalised(const at::Tensor& input, const at::Tensor& terms) {
  if (const auto shape = shape_for_loops(input)) {
    at::Tensor out = at::empty_like(input);
    const float* mean = terms.const_data_ptr<float>();
    const NormTerms in_loops{mean, mean + shape->channels, mean + 2 * shape->channels};
    by_element(input, [&](auto type) {
      over_chunks(*shape, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        normalise(data(input, type), mutable_data(out, type), *shape, begin, end, in_loops);
      });
    });
    return out;
  }
  const at::Tensor centred = input.to(wide(input)) - beside(terms[0], input);
  return (centred * beside(terms[1], input) + beside(terms[2], input)).to(input.scalar_type());
}

/// Of this rank's samples: sum of gradient, and of gradient x (input - mean): fp64 [2C].
at::Tensor own_sums(const at::Tensor& input, const at::Tensor& gradient, const at::Tensor& terms) {
  const std::int64_t channels = input.size(1);
  if (input.numel() == 0) return at::zeros({2 * channels}, kFp64);
  if (const auto shape = shape_for_loops(input)) {
    at::Tensor rows = at::empty({chunks_of(*shape), 2 * channels}, kFp64);
    double* out = rows.mutable_data_ptr<double>();
    by_element(input, [&](auto type) {
      over_chunks(*shape, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
        double* mine = out + chunk * 2 * channels;
        gradient_sums(data(input, type), data(gradient, type), *shape, begin, end,
                      terms.const_data_ptr<float>(), mine, mine + channels);
      });
    });
    return rows.size(0) == 1 ? rows[0] : rows.sum(0);
  }
  const at::Tensor g = gradient.to(wide(input));
  const at::Tensor centred = input.to(wide(input)) - beside(terms[0], input);
  const auto dims = other_dims(input);
  return at::cat({g.sum(dims), (g * centred).sum(dims)}).to(at::kCPU, at::kDouble);
}

/// Of the formula of the input's gradient: scale, slope and offset, [3,C] beside the input. With
/// scale = weight / deviation it is scale (gradient - mean gradient - (input - mean) x mean of
/// gradient x (input - mean) / deviation^2), means over all ranks' samples.
at::Tensor gradient_terms_of(const at::Tensor& input, const at::Tensor& statistics,
                             const at::Tensor& weight, const at::Tensor& sums) {
  const std::int64_t channels = input.size(1);
  const double count = std::max(1.0, *statistics.const_data_ptr<double>());
  const double* inverse = statistics.const_data_ptr<double>() + 1 + channels;
  const double* sum = sums.const_data_ptr<double>();
  const double* product = sum + channels;
  const std::vector<double> factor = numbers_of(weight);
  at::Tensor terms = at::empty({3, channels}, kFp64);
  double* scale = terms.mutable_data_ptr<double>();
  for (std::size_t c = 0; c < factor.size(); ++c) {
    scale[c] = inverse[c] * factor[c];
    scale[factor.size() + c] = -scale[c] * inverse[c] * inverse[c] * product[c] / count;
    scale[2 * factor.size() + c] = -scale[c] * sum[c] / count;
  }
  return terms.to(input.device(), wide(input));
}

at::Tensor input_gradient(const at::Tensor& input, const at::Tensor& gradient,
                          const at::Tensor& terms, const at::Tensor& of_gradient) {
  if (const auto shape = shape_for_loops(input)) {
    at::Tensor out = at::empty_like(input);
    const float* scale = of_gradient.const_data_ptr<float>();
    const NormGradientTerms in_loops{terms.const_data_ptr<float>(), scale, scale + shape->channels,
                                     scale + 2 * shape->channels};
    by_element(input, [&](auto type) {
      over_chunks(*shape, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        norm_input_gradient(data(input, type), data(gradient, type), mutable_data(out, type),
                            *shape, begin, end, in_loops);
      });
    });
    return out;
  }
  const at::Tensor centred = input.to(wide(input)) - beside(terms[0], input);
  return (gradient.to(wide(input)) * beside(of_gradient[0], input) +
          centred * beside(of_gradient[1], input) + beside(of_gradient[2], input))
      .to(input.scalar_type());
}

/// This rank's share of the gradient of the weight, from its sums.
at::Tensor weight_gradient(const at::Tensor& weight, const at::Tensor& statistics,
                           const at::Tensor& sums) {
  const std::int64_t channels = sums.numel() / 2;
  const double* inverse = statistics.const_data_ptr<double>() + 1 + channels;
  const double* product = sums.const_data_ptr<double>() + channels;
  at::Tensor gradient = at::empty({channels}, kFp64);
  std::transform(product, product + channels, inverse, gradient.mutable_data_ptr<double>(),
                 std::multiplies<>());
  return gradient.to(weight.device(), weight.scalar_type());
}

class BatchNormOverRanks : public torch::autograd::Function<BatchNormOverRanks> {
 public:
  static Variable forward(AutogradContext* context, const Variable& input, const Variable& weight,
                          const Variable& bias, const BatchNormTensors& tensors,
                          const BatchNormNumbers& numbers, const SharedExchange& exchange) {
    const at::Tensor own = own_moments(input);
    const at::Tensor merged = exchange ? merge_moments(exchange->gather(own)) : own;
    move_running(merged, tensors, numbers.momentum);
    const at::Tensor statistics = statistics_from(merged, numbers.eps);
    const at::Tensor terms = terms_of(input, statistics, weight, bias);
    context->save_for_backward({input, weight, statistics, terms});
    if (exchange) context->saved_data["exchange"] = at::IValue::make_capsule(exchange);
    context->saved_data["bias"] = static_cast<std::int64_t>(bias.scalar_type());
    return normalised(input, terms);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw UsageError({{"LS-7003", "batch normalisation over ranks",
                         "a gradient of its gradient was asked for, and it has none",
                         "leave out create_graph, or use torch::nn::BatchNorm there"}});
    }
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& statistics = saved[2];
    const at::Tensor& terms = saved[3];
    const at::Tensor gradient = gradients[0].contiguous(input.suggest_memory_format());
    const at::Tensor own = own_sums(input, gradient, terms);
    const auto bias_type = static_cast<at::ScalarType>(context->saved_data["bias"].toInt());
    const at::Tensor of_bias = own.narrow(0, 0, input.size(1))
                                   .to(weight.device(), bias_type, /*non_blocking=*/false,
                                       /*copy=*/true);  // sum() may write over it
    const at::Tensor of_weight = weight_gradient(weight, statistics, own);
    at::Tensor of_input;
    if (context->needs_input_grad(0)) {
      of_input =
          input_gradient(input, gradient, terms,
                         gradient_terms_of(input, statistics, weight, sums_of_all(*context, own)));
    }
    return {of_input, of_weight, of_bias, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor sums_of_all(AutogradContext& context, const at::Tensor& own) {
    const auto kept = context.saved_data.find("exchange");
    if (kept == context.saved_data.end()) return own;
    return c10::static_intrusive_pointer_cast<StatisticsExchange>(kept->second.toCapsule())
        ->sum(own);
  }
};

/// As LibTorch's own layers do.
void check_channels(const at::Tensor& input, const BatchNormTensors& tensors) {
  TORCH_CHECK(input.dim() >= 2, "batch normalisation takes [B,C] or [B,C,...], not ",
              input.sizes());
  for (const at::Tensor* tensor :
       {&tensors.weight, &tensors.bias, &tensors.running_mean, &tensors.running_var}) {
    TORCH_CHECK(!tensor->defined() || tensor->numel() == input.size(1), "batch normalisation of ",
                tensor->numel(), " channels was given ", input.sizes());
  }
}

/// Adds one row of moments to `into`.
void merge_into(double* into, const double* row, std::int64_t channels) {
  if (row[0] == 0) return;
  const double count = into[0] + row[0];
  const double share = row[0] / count;
  const double between = into[0] * share;
  for (std::int64_t c = 1; c <= channels; ++c) {
    const double apart = row[c] - into[c];
    into[c] += apart * share;
    into[channels + c] += row[channels + c] + apart * apart * between;
  }
  into[0] = count;
}

}  // namespace

at::Tensor merge_moments(const at::Tensor& rows) {
  const std::int64_t width = rows.size(1);
  at::Tensor merged = at::zeros({width}, kFp64);
  const double* from = rows.const_data_ptr<double>();
  for (std::int64_t r = 0; r < rows.size(0); ++r) {
    merge_into(merged.mutable_data_ptr<double>(), from + r * width, (width - 1) / 2);
  }
  return merged;
}

at::Tensor batch_norm_over_ranks(const at::Tensor& input, const BatchNormTensors& tensors,
                                 const BatchNormNumbers& numbers, const SharedExchange& exchange) {
  check_channels(input, tensors);
  const auto unset = [&](const at::Tensor& tensor, double value) {
    if (tensor.defined()) return tensor;
    return at::full({input.size(1)}, value, input.options().dtype(wide(input)));
  };
  return BatchNormOverRanks::apply(input.contiguous(input.suggest_memory_format()),
                                   unset(tensors.weight, 1), unset(tensors.bias, 0), tensors,
                                   numbers, exchange);
}

}  // namespace lockstep::model
