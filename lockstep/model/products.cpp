#include "lockstep/model/products.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>

#include "lockstep/model/gradient_place.h"

namespace lockstep::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// N rows, I inputs, O outputs.
class WideLinear : public torch::autograd::Function<WideLinear> {
 public:
  static Variable forward(AutogradContext* context, const Variable& input, const Variable& weight,
                          const std::optional<Variable>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    const at::Tensor wide_bias = bias ? for_product(*bias) : at::Tensor();
    return at::linear(for_product(input), for_product(weight), wide_bias).to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::ScalarType type = saved[0].scalar_type();
    const at::Tensor grad_NO = for_product(gradients[0]).flatten(0, -2);
    variable_list out(3);
    if (context->needs_input_grad(0)) {
      out[0] = grad_NO.mm(for_product(saved[1])).to(type).view(saved[0].sizes());
    }
    const at::Tensor input_NI = for_product(saved[0]).flatten(0, -2);
    out[1] = grad_NO.t().mm(input_NI).to(type);
    if (context->saved_data["bias"].toBool()) out[2] = grad_NO.sum(0).to(type);
    return out;
  }
};

at::Tensor weight_gradient(const at::Tensor& grad_NO, const at::Tensor& input_NI,
                           const at::Tensor& weight_OI) {
  at::Tensor place = take_gradient_place(weight_OI);
  if (!place.defined()) return grad_NO.t().mm(input_NI);
  at::mm_out(place, grad_NO.t(), input_NI);
  return place;
}

/// One node where LibTorch records two, or three with ReLU (transpose, addmm, relu): a small layer
/// takes less time than recording it. Nothing inside is recorded, so it skips the dispatch for it.
/// N rows, I inputs, O outputs.
class RowsLinear : public torch::autograd::Function<RowsLinear> {
 public:
  static Variable forward(AutogradContext* context, const Variable& input_NI,
                          const Variable& weight_OI, const Variable& bias_O, bool relu) {
    at::Tensor out_NO;
    {
      const at::AutoDispatchBelowADInplaceOrView unrecorded;
      out_NO = at::addmm(bias_O, input_NI, weight_OI.t());
      if (relu) at::relu_(out_NO);
    }
    context->save_for_backward({input_NI, weight_OI, relu ? out_NO : at::Tensor()});
    return out_NO;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::AutoDispatchBelowADInplaceOrView unrecorded;
    const bool relu = saved[2].defined();
    const at::Tensor grad_NO =
        relu ? at::threshold_backward(gradients[0], saved[2], /*threshold=*/0) : gradients[0];
    variable_list out(4);
    if (context->needs_input_grad(0)) out[0] = grad_NO.mm(saved[1]);
    if (context->needs_input_grad(1)) out[1] = weight_gradient(grad_NO, saved[0], saved[1]);
    if (context->needs_input_grad(2)) out[2] = grad_NO.sum(0);
    return out;
  }
};

class WideConv2d : public torch::autograd::Function<WideConv2d> {
 public:
  static Variable forward(AutogradContext* context, const Variable& input, const Variable& weight,
                          std::int64_t stride, std::int64_t padding) {
    context->save_for_backward({input, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    return at::conv2d(for_product(input), for_product(weight), {}, {stride, stride},
                      {padding, padding})
        .to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::ScalarType type = saved[0].scalar_type();
    const std::int64_t stride = context->saved_data["stride"].toInt();
    const std::int64_t padding = context->saved_data["padding"].toInt();
    const std::array<bool, 3> wanted{context->needs_input_grad(0), true, false};
    const auto [input, weight, bias] = at::convolution_backward(
        for_product(gradients[0]), for_product(saved[0]), for_product(saved[1]), std::nullopt,
        {stride, stride}, {padding, padding}, /*dilation=*/{1, 1}, /*transposed=*/false,
        /*output_padding=*/{0, 0}, /*groups=*/1, wanted);
    return {input.defined() ? input.to(type) : input, weight.to(type), at::Tensor(), at::Tensor()};
  }
};

bool is_widened(const at::Tensor& tensor) {
  return product_type(tensor.scalar_type()) != tensor.scalar_type();
}

}  // namespace

at::Tensor apply_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  if (is_widened(weight)) {
    return WideLinear::apply(input, weight,
                             bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  }
  if (input.dim() != 2 || !bias.defined()) return at::linear(input, weight, bias);
  return RowsLinear::apply(input, weight, bias, /*relu=*/false);
}

at::Tensor apply_linear_relu(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& bias) {
  if (is_widened(weight) || input.dim() != 2) return apply_linear(input, weight, bias).relu_();
  return RowsLinear::apply(input, weight, bias, /*relu=*/true);
}

at::Tensor apply_conv2d(const at::Tensor& input_BCHW, const at::Tensor& weight, std::int64_t stride,
                        std::int64_t padding) {
  if (is_widened(weight)) return WideConv2d::apply(input_BCHW, weight, stride, padding);
  return at::conv2d(input_BCHW, weight, {}, {stride, stride}, {padding, padding});
}

at::ScalarType product_type(at::ScalarType type) { return type == at::kHalf ? at::kFloat : type; }

at::Tensor for_product(const at::Tensor& tensor) {
  return tensor.to(product_type(tensor.scalar_type()));
}

}  // namespace lockstep::model
