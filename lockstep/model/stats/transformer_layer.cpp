#include "lockstep/model/stats/transformer_layer.h"

#include <string>
#include <utility>

#include "lockstep/model/stats/layer_stats.h"

namespace lockstep::model {
namespace {

/// Puts one layer together. Each part is norm, function, dropout and sum; with norm_after the norm
/// stands behind the sum.
class LayerBuilder {
 public:
  LayerBuilder(const Architecture& architecture, const TransformerLayer& layer, std::int64_t index)
      : a_(architecture), layer_(layer), index_(index), tokens_(layer.tokens) {
    block_.name = layer.prefix + std::to_string(index);
    block_.is_layer = true;
    block_.input_elements = stream();
  }

  BlockStats build() {
    add_self_attention();
    if (layer_.source_tokens > 0) add_cross_attention();
    add_feed_forward();
    finish(block_);
    return std::move(block_);
  }

 private:
  [[nodiscard]] double stream() const { return tokens_ * static_cast<double>(a_.width); }
  [[nodiscard]] bool biased_norm() const { return !a_.rms_norm && a_.norm_bias; }

  void norm_before(const std::string& name) {
    if (!a_.norm_after) add_norm(block_, {name, a_.width, biased_norm(), tokens_});
  }

  void end_part(const std::string& norm, const std::string& number) {
    add_dropout(block_, "dropout" + number, stream(), a_.dropout);
    add_pointwise(block_, "sum" + number, Share::sequence, stream(), 3);
    if (a_.norm_after) add_norm(block_, {norm, a_.width, biased_norm(), tokens_});
  }

  void add_self_attention() {
    const std::int64_t rows = (a_.heads + 2 * a_.kv_heads) * a_.head_width;
    norm_before("ln1");
    add_linear(block_, {"qkv", a_.width, rows, Split::column, a_.biased || a_.biased_qkv, tokens_});
    if (a_.qk_norm) {
      const auto heads = static_cast<double>(a_.heads);
      const auto kv_heads = static_cast<double>(a_.kv_heads);
      add_norm(block_, {"q_norm", a_.head_width, false, tokens_ * heads, Share::tensor});
      add_norm(block_, {"k_norm", a_.head_width, false, tokens_ * kv_heads, Share::tensor});
    }
    if (a_.positions == Positions::rotary) {
      const auto turned = static_cast<double>((a_.heads + a_.kv_heads) * a_.head_width);
      add_pointwise(block_, "rotary", Share::tensor, tokens_ * turned, 2);
    }
    if (a_.positions == Positions::relative && index_ == 0) {
      block_.parameters.push_back(
          {block_.name + ".positions.weight", {a_.position_buckets, a_.heads}, Split::none, false});
    }
    attend(tokens_, layer_.causal);
    add_linear(block_,
               {"proj", a_.heads * a_.head_width, a_.width, Split::row, a_.biased, tokens_});
    end_part("ln1", "1");
  }

  void add_cross_attention() {
    const std::int64_t width = a_.heads * a_.head_width;
    norm_before("ln_cross");
    add_linear(block_, {"q_cross", a_.width, width, Split::column, a_.biased, tokens_});
    // The encoder's output is kept once, where the decoder begins, not by every layer.
    LinearLayer source{"kv_cross",    a_.width,  2 * a_.kv_heads * a_.head_width,
                       Split::column, a_.biased, layer_.source_tokens};
    source.keeps_input = false;
    add_linear(block_, source);
    attend(layer_.source_tokens, false);
    add_linear(block_, {"proj_cross", width, a_.width, Split::row, a_.biased, tokens_});
    end_part("ln_cross", "_cross");
  }

  void attend(double keys, bool causal) {
    add_attention(block_, {tokens_, keys, static_cast<double>(a_.heads),
                           static_cast<double>(a_.kv_heads), static_cast<double>(a_.head_width),
                           a_.attention_dropout.value_or(a_.dropout), causal});
  }

  void add_feed_forward() {
    if (!a_.one_norm) norm_before("ln2");
    if (a_.experts.in_block(index_)) {
      add_experts();
    } else {
      add_dense("", a_.feed_forward, !a_.one_norm);
    }
    end_part("ln2", "2");
  }

  /// \param prefix of the names. \param keeps_input no other part of the layer does.
  void add_dense(const std::string& prefix, std::int64_t hidden, bool keeps_input) {
    LinearLayer first{
        prefix + (a_.gated ? "gate" : "fc1"), a_.width, hidden, Split::column, a_.biased, tokens_};
    first.keeps_input = keeps_input;
    add_linear(block_, first);
    if (a_.gated) {
      LinearLayer up{prefix + "up", a_.width, hidden, Split::column, a_.biased, tokens_};
      up.keeps_input = false;  // gate does
      add_linear(block_, up);
    }
    add_activation(prefix, Share::tensor, tokens_ * static_cast<double>(hidden));
    add_linear(block_, {prefix + (a_.gated ? "down" : "fc2"), hidden, a_.width, Split::row,
                        a_.biased, tokens_});
  }

  void add_activation(const std::string& prefix, Share share, double count) {
    add_pointwise(block_, prefix + "activation", share, count, 2, a_.relu ? 0 : count);
    // Its product with the other half keeps both factors.
    if (a_.gated) add_pointwise(block_, prefix + "product", share, count, 3, 2 * count);
  }

  void add_experts() {
    const Experts& experts = a_.experts;
    const std::int64_t hidden = experts.width > 0 ? experts.width : a_.feed_forward;
    const auto per_token = static_cast<double>(experts.per_token);
    add_linear(block_, {"router", a_.width, experts.experts, Split::none, false, tokens_});
    block_.operators.back().kept.push_back(  // shares of all experts, in fp32
        {0, 4 * tokens_ * static_cast<double>(experts.experts), Share::whole, false});
    add_moves("dispatch");
    const char* first = a_.gated ? "experts.gate" : "experts.fc1";
    const char* last = a_.gated ? "experts.down" : "experts.fc2";
    add_expert_product(first, a_.width, hidden, Split::column);
    if (a_.gated) {
      add_expert_product("experts.up", a_.width, hidden, Split::column);
      block_.operators.back().kept.clear();  // gate keeps the input
    }
    add_activation("experts.", Share::expert, tokens_ * per_token * static_cast<double>(hidden));
    add_expert_product(last, hidden, a_.width, Split::row);
    add_moves("combine");
    // The shares of the sum get a gradient, for which it keeps what it adds up.
    block_.operators.back().kept.push_back({stream() * per_token, 0, Share::expert, false});
    if (experts.shared > 0) add_shared_experts(hidden);
  }

  /// Tokens to their experts, or back.
  void add_moves(const std::string& name) {
    add_pointwise(block_, name, Share::expert, stream() * static_cast<double>(a_.experts.per_token),
                  2);
    block_.operators.back().kind = OperatorKind::router;
  }

  void add_expert_product(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                          Split split) {
    const Experts& experts = a_.experts;
    const std::string prefix = block_.name + "." + name;
    block_.parameters.push_back(
        {prefix + ".weight", {experts.experts, outputs, inputs}, split, false, true});
    if (a_.biased) {
      block_.parameters.push_back(
          {prefix + ".bias", {experts.experts, outputs}, Split::none, false, true});
    }
    OperatorStats op;
    op.name = name;
    op.times = static_cast<double>(experts.experts);
    op.m = tokens_ * static_cast<double>(experts.per_token) / op.times;
    op.n = static_cast<double>(outputs);
    op.k = static_cast<double>(inputs);
    op.share = Share::expert;
    op.splits_inner = split == Split::row;
    op.forward_flops = 2 * op.m * op.n * op.k * op.times;
    op.backward_flops = 2 * op.forward_flops;
    op.moved_elements = op.m * (op.n + op.k) * op.times;
    op.weight_elements = op.n * op.k * op.times;
    op.kept.push_back({op.m * op.k * op.times, 0, Share::expert, false});
    block_.operators.push_back(std::move(op));
  }

  void add_shared_experts(std::int64_t hidden) {
    add_dense("shared.", a_.experts.shared * hidden, false);
    if (!a_.experts.shared_gate) return;
    LinearLayer gate{"shared.share", a_.width, 1, Split::none, false, tokens_};
    gate.keeps_input = false;  // the router does
    add_linear(block_, gate);
  }

  const Architecture& a_;
  const TransformerLayer& layer_;
  std::int64_t index_;
  double tokens_;
  BlockStats block_;
};

}  // namespace

BlockStats transformer_layer(const Architecture& architecture, const TransformerLayer& layer,
                             std::int64_t index) {
  return LayerBuilder(architecture, layer, index).build();
}

}  // namespace lockstep::model
