// Matrix products and convolutions of every compute type. LibTorch multiplies fp16 on CPUs without
// fp16 arithmetic element by element; here such tensors are widened, multiplied in fp32 and rounded
// once, and backward keeps them in fp16.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::model {

// B samples, C channels, H W pixels.

/// [..., inputs] x [outputs, inputs] -> [..., outputs], all of one type. \param bias [outputs], or
/// undefined.
[[nodiscard]] at::Tensor apply_linear(const at::Tensor& input, const at::Tensor& weight,
                                      const at::Tensor& bias = {});

/// relu of that, with a bias.
[[nodiscard]] at::Tensor apply_linear_relu(const at::Tensor& input, const at::Tensor& weight,
                                           const at::Tensor& bias);

/// Without bias; the same stride and padding along both dims.
[[nodiscard]] at::Tensor apply_conv2d(const at::Tensor& input_BCHW, const at::Tensor& weight,
                                      std::int64_t stride, std::int64_t padding);

/// The type in which products of `type` are computed: fp32 for fp16.
[[nodiscard]] at::ScalarType product_type(at::ScalarType type);
/// `tensor` in that type; itself where nothing is to do.
[[nodiscard]] at::Tensor for_product(const at::Tensor& tensor);

}  // namespace lockstep::model
