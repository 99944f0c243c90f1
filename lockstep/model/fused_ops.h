// Operators of ours where LibTorch's are slow, keep more for backward, or add up in bf16.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::model {

// N rows (samples or tokens), V classes, C features, B samples, T tokens, n heads, d = C / n.

// All take fp32, bf16 or fp16 and compute in fp32 between reading and writing an element.

/// gelu(x) in its tanh form, contiguous.
[[nodiscard]] at::Tensor gelu_tanh(const at::Tensor& x);

/// Causal self-attention (Vaswani et al. 2017) of the queries, keys and values that lie side by
/// side in `qkv`: [B,T,3C] -> [B,T,C]. Up to kMostAttended tokens it keeps the attention shares
/// of each query block and is made of matrix products, which beats LibTorch's
/// scaled_dot_product_attention there; longer sequences take that one: it keeps nothing quadratic.
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads);

/// Sum over rows of -log softmax(logits)[target], in fp32 whatever the dtype of the logits: scalar.
/// Keeps the logits and one fp32 a row for backward, where cross_entropy_loss keeps V. Rows whose
/// target is -100 are left out.
[[nodiscard]] at::Tensor cross_entropy_sum(const at::Tensor& logits_NV, const at::Tensor& target_N);

/// Rows of `weight_VC`. Its gradient is summed in fp32 and then rounded: in bf16 or fp16 the sum
/// over a frequent token would stop growing.
[[nodiscard]] at::Tensor embed_rows(const at::Tensor& weight_VC, const at::Tensor& ids);

}  // namespace lockstep::model
