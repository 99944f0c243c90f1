#include "lockstep/model/fused_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/products.h"
#include "lockstep/model/stats/families.h"
#include "lockstep/model/tensor_element.h"
#include "lockstep/model/vector_kernel.h"

namespace lockstep::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr std::int64_t kIgnoredTarget = -100;
constexpr std::int64_t kElementGrain = 1 << 15;  // elements worth a thread

/// by_element of a contiguous tensor.
template <typename Body>
void by_dtype(const at::Tensor& tensor, Body body) {
  LOCKSTEP_CHECK(tensor.is_contiguous(), "an operator of ours was given a strided tensor");
  by_element(tensor, body);
}

class GeluTanh : public torch::autograd::Function<GeluTanh> {
 public:
  static Variable forward(AutogradContext* context, const Variable& x) {
    context->save_for_backward({x});
    at::Tensor out = at::empty_like(x);
    by_dtype(x, [&](auto type) {
      at::parallel_for(0, x.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
        gelu_forward(data(x, type) + begin, mutable_data(out, type) + begin, end - begin);
      });
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor out = at::empty_like(x);
    by_dtype(x, [&](auto type) {
      at::parallel_for(0, x.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
        gelu_backward(data(x, type) + begin, data(gradient, type) + begin,
                      mutable_data(out, type) + begin, end - begin);
      });
    });
    return {out};
  }
};

at::Tensor as_heads(const at::Tensor& x_BTC, std::int64_t heads) {
  return x_BTC.unflatten(2, {heads, x_BTC.size(2) / heads}).transpose(1, 2);
}

/// Calls body(type, begin, end) over the rows of a tensor, in parallel.
template <typename Body>
void over_rows(const at::Tensor& tensor, Body body) {
  const std::int64_t width = tensor.size(-1);
  by_dtype(tensor, [&](auto type) {
    at::parallel_for(0, tensor.numel() / width, kElementGrain / width + 1,
                     [&](std::int64_t begin, std::int64_t end) { body(type, begin, end); });
  });
}

float score_scale(std::int64_t head_width) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width)));
}

CausalShape query_block(std::int64_t block, std::int64_t tokens) {
  const std::int64_t first = block * kQueryBlock;
  const std::int64_t end = std::min(first + kQueryBlock, tokens);
  return {end - first, first, end};
}

/// In fp16 all of it is computed in fp32 (products.h), and kept in fp16.
class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Variable forward(AutogradContext* context, const Variable& qkv, std::int64_t heads) {
    const std::int64_t samples = qkv.size(0);
    const std::int64_t tokens = qkv.size(1);
    const std::int64_t head_width = qkv.size(2) / 3 / heads;
    const at::Tensor kept_parts = qkv.view({samples, tokens, 3, heads, head_width})
                                      .permute({2, 0, 3, 1, 4})
                                      .contiguous()
                                      .view({3, samples * heads, tokens, head_width});
    const at::Tensor parts = for_product(kept_parts);
    at::Tensor out = at::empty_like(parts[0]);
    variable_list kept{kept_parts};
    for (std::int64_t block = 0; block * kQueryBlock < tokens; ++block) {
      const CausalShape shape = query_block(block, tokens);
      const at::Tensor queries = parts[0].narrow(1, shape.first, shape.rows);
      const at::Tensor shares =
          at::bmm(queries, parts[1].narrow(1, 0, shape.width).transpose(1, 2));
      over_rows(shares, [&](auto type, std::int64_t begin, std::int64_t end) {
        causal_softmax(mutable_data(shares, type), begin, end, shape, score_scale(head_width));
      });
      at::Tensor rows = out.narrow(1, shape.first, shape.rows);
      at::bmm_out(rows, shares, parts[2].narrow(1, 0, shape.width));
      kept.push_back(shares.to(qkv.scalar_type()));
    }
    context->save_for_backward(kept);
    return out.to(qkv.scalar_type())
        .view({samples, heads, tokens, head_width})
        .transpose(1, 2)
        .flatten(2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor parts = for_product(saved[0]);
    const std::int64_t tokens = parts.size(2);
    const std::int64_t head_width = parts.size(3);
    const std::int64_t samples = gradients[0].size(0);
    const std::int64_t heads = parts.size(1) / samples;
    const at::Tensor out = for_product(as_heads(gradients[0], heads).flatten(0, 1));  // [Bn,T,d]
    const at::Tensor grads = at::empty_like(parts);
    // From the last block, which writes all keys, to the first: the others add to theirs.
    const auto blocks = static_cast<std::int64_t>(saved.size()) - 1;
    for (std::int64_t block = blocks - 1; block >= 0; --block) {
      const CausalShape shape = query_block(block, tokens);
      const at::Tensor shares = for_product(saved[static_cast<std::size_t>(block) + 1]);
      const at::Tensor out_rows = out.narrow(1, shape.first, shape.rows);
      const auto keys = [&](const at::Tensor& tensor) { return tensor.narrow(1, 0, shape.width); };
      const auto queries = [&](const at::Tensor& tensor) {
        return tensor.narrow(1, shape.first, shape.rows);
      };
      const at::Tensor scores = at::bmm(out_rows, keys(parts[2]).transpose(1, 2));
      over_rows(scores, [&](auto type, std::int64_t begin, std::int64_t end) {
        causal_softmax_backward(data(shares, type), mutable_data(scores, type), begin, end, shape,
                                score_scale(head_width));
      });
      at::Tensor grad_q = queries(grads[0]);
      at::bmm_out(grad_q, scores, keys(parts[1]));
      add_product(keys(grads[1]), scores.transpose(1, 2), queries(parts[0]), block + 1 < blocks);
      add_product(keys(grads[2]), shares.transpose(1, 2), out_rows, block + 1 < blocks);
    }
    const at::Tensor grad_qkv = grads.to(saved[0].scalar_type())
                                    .view({3, samples, heads, tokens, head_width})
                                    .permute({1, 3, 0, 2, 4})
                                    .reshape({samples, tokens, 3 * heads * head_width});
    return {grad_qkv, at::Tensor()};
  }

 private:
  static void add_product(at::Tensor into, const at::Tensor& a, const at::Tensor& b, bool add) {
    if (add) {
      into.baddbmm_(a, b);
    } else {
      at::bmm_out(into, a, b);
    }
  }
};

/// LibTorch's attention for long sequences with fp32 products of what is kept in fp16.
class WideLongAttention : public torch::autograd::Function<WideLongAttention> {
 public:
  static Variable forward(AutogradContext* context, const Variable& qkv, std::int64_t heads) {
    const std::vector<at::Tensor> parts = heads_of(qkv, heads);
    auto [out, log_sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        parts[0], parts[1], parts[2], /*dropout_p=*/0.0, /*is_causal=*/true);
    const at::Tensor narrow = out.to(qkv.scalar_type());
    context->save_for_backward({qkv, narrow, log_sums});
    context->saved_data["heads"] = heads;
    return narrow.transpose(1, 2).flatten(2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const std::vector<at::Tensor> parts = heads_of(saved[0], heads);
    const auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        for_product(as_heads(gradients[0], heads)), parts[0], parts[1], parts[2],
        for_product(saved[1]), saved[2], /*dropout_p=*/0.0, /*is_causal=*/true);
    const auto flat = [](const at::Tensor& grad) { return grad.transpose(1, 2).flatten(2); };
    return {at::cat({flat(q), flat(k), flat(v)}, 2).to(saved[0].scalar_type()), at::Tensor()};
  }

 private:
  static std::vector<at::Tensor> heads_of(const at::Tensor& qkv, std::int64_t heads) {
    std::vector<at::Tensor> parts = for_product(qkv).chunk(3, 2);
    for (at::Tensor& part : parts) part = as_heads(part, heads);
    return parts;
  }
};

/// Loss of one row given its log_sum_exp; checks the target.
template <typename T>
float row_loss(const T* row, float log_sum, std::int64_t target, std::int64_t classes) {
  if (target == kIgnoredTarget) return 0;
  if (target < 0 || target >= classes) {
    throw BadData({"LS-2004", "target",
                   "class " + std::to_string(target) + " of a model with " +
                       std::to_string(classes) + " classes",
                   "set model.classes or model.vocab_size to what the data hold"});
  }
  return log_sum - to_float(row[target]);
}

class CrossEntropySum : public torch::autograd::Function<CrossEntropySum> {
 public:
  static Variable forward(AutogradContext* context, const Variable& logits_NV,
                          const Variable& target_N) {
    const std::int64_t rows = logits_NV.size(0);
    const std::int64_t classes = logits_NV.size(1);
    const at::Tensor log_sum_N = at::empty({rows}, at::kFloat);
    std::vector<float> losses(static_cast<std::size_t>(rows));
    const std::int64_t* target = target_N.const_data_ptr<std::int64_t>();
    float* log_sum = log_sum_N.mutable_data_ptr<float>();
    by_dtype(logits_NV, [&](auto type) {
      const std::int64_t grain = kElementGrain / classes + 1;
      at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto* row = data(logits_NV, type) + i * classes;
          log_sum[i] = log_sum_exp(row, classes);
          losses[static_cast<std::size_t>(i)] = row_loss(row, log_sum[i], target[i], classes);
        }
      });
    });
    context->save_for_backward({logits_NV, target_N, log_sum_N});
    return at::scalar_tensor(std::accumulate(losses.begin(), losses.end(), 0.0), at::kFloat);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& logits_NV = saved[0];
    const std::int64_t classes = logits_NV.size(1);
    const std::int64_t* target = saved[1].const_data_ptr<std::int64_t>();
    const float* log_sum = saved[2].const_data_ptr<float>();
    const float scale = gradients[0].item<float>();
    at::Tensor out = at::empty_like(logits_NV);
    by_dtype(logits_NV, [&](auto type) {
      const std::int64_t grain = kElementGrain / classes + 1;
      at::parallel_for(0, logits_NV.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto* row = data(logits_NV, type) + i * classes;
          auto* grad = mutable_data(out, type) + i * classes;
          const bool ignored = target[i] == kIgnoredTarget;
          scaled_softmax(row, log_sum[i], ignored ? 0.0F : scale, grad, classes);
          if (ignored) continue;
          store(scale * (std::exp(to_float(row[target[i]]) - log_sum[i]) - 1.0F), grad + target[i]);
        }
      });
    });
    return {out, at::Tensor()};
  }
};

/// In bf16 or fp16.
class NarrowEmbedding : public torch::autograd::Function<NarrowEmbedding> {
 public:
  static Variable forward(AutogradContext* context, const Variable& weight_VC,
                          const Variable& ids) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = weight_VC.size(0);
    return at::embedding(weight_VC, ids);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor sums_VC = at::embedding_dense_backward(
        gradients[0].to(at::kFloat), ids, context->saved_data["rows"].toInt(), /*padding_idx=*/-1,
        /*scale_grad_by_freq=*/false);
    return {sums_VC.to(gradients[0].scalar_type()), at::Tensor()};
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) { return GeluTanh::apply(x.contiguous()); }

at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads) {
  if (qkv.size(1) <= kMostAttended) return CausalAttention::apply(qkv.contiguous(), heads);
  if (qkv.scalar_type() == at::kHalf) return WideLongAttention::apply(qkv, heads);
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  const at::Tensor y_BnTd = at::scaled_dot_product_attention(
      as_heads(parts[0], heads), as_heads(parts[1], heads), as_heads(parts[2], heads), {}, 0.0,
      /*is_causal=*/true);
  return y_BnTd.transpose(1, 2).flatten(2);
}

at::Tensor cross_entropy_sum(const at::Tensor& logits_NV, const at::Tensor& target_N) {
  return CrossEntropySum::apply(logits_NV.contiguous(), target_N.contiguous());
}

at::Tensor embed_rows(const at::Tensor& weight_VC, const at::Tensor& ids) {
  if (weight_VC.scalar_type() == at::kFloat) return at::embedding(weight_VC, ids);
  return NarrowEmbedding::apply(weight_VC, ids);
}

}  // namespace lockstep::model
