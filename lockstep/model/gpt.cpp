#include "lockstep/model/gpt.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "lockstep/model/block_list.h"
#include "lockstep/model/fused_ops.h"
#include "lockstep/model/layers.h"
#include "lockstep/model/products.h"

namespace lockstep::model {
namespace {

// B samples, T tokens, C model width, V vocabulary, n heads, d = C / n.

constexpr double kInitStd = 0.02;  // Radford et al. 2019

/// A block of the transformer; draws random numbers only while training with dropout.
class GptBlock : public Block {
 public:
  explicit GptBlock(double dropout) : dropout_(dropout) {}
  bool draws_random() const override { return dropout_ > 0 && is_training(); }

 protected:
  at::Tensor drop(at::Tensor x_BTC) const {
    return draws_random() ? at::dropout(x_BTC, dropout_, /*train=*/true) : x_BTC;
  }

 private:
  double dropout_;
};

class EmbedBlock : public GptBlock {
 public:
  EmbedBlock(const config::ModelSection& config, std::int64_t seq_len, Initializer& init)
      : GptBlock(config.dropout),
        wte_(register_module(
            "wte", std::make_shared<Embedding>(init, config.vocab_size, config.width, kInitStd))),
        wpe_(register_module("wpe",
                             std::make_shared<Embedding>(init, seq_len, config.width, kInitStd))) {}

  at::Tensor forward(at::Tensor ids_BT) override {
    const at::Tensor positions_TC = wpe_->weight.narrow(0, 0, ids_BT.size(1));
    return drop(wte_->forward(ids_BT).add_(positions_TC));
  }

  [[nodiscard]] const at::Tensor& token_weight() const { return wte_->weight; }

 private:
  std::shared_ptr<Embedding> wte_;
  std::shared_ptr<Embedding> wpe_;
};

/// x + proj(attention(ln1(x))), then h + fc2(gelu(fc1(ln2(h)))). Residual sums are taken in place
/// on the projections' outputs, which autograd does not keep.
class TransformerBlock : public GptBlock {
 public:
  TransformerBlock(const config::ModelSection& config, Initializer& init)
      : GptBlock(config.dropout), heads_(config.heads) {
    const std::int64_t width = config.width;
    const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(config.layers));
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, double std_dev) {
      return register_module(name, std::make_shared<Linear>(init, in, out, std_dev));
    };
    ln1_ = register_module("ln1", std::make_shared<LayerNorm>(width));
    qkv_ = linear("qkv", width, 3 * width, kInitStd);
    proj_ = linear("proj", width, width, residual_std);
    ln2_ = register_module("ln2", std::make_shared<LayerNorm>(width));
    fc1_ = linear("fc1", width, 4 * width, kInitStd);
    fc2_ = linear("fc2", 4 * width, width, residual_std);
  }

  at::Tensor forward(at::Tensor x_BTC) override {
    const at::Tensor mixed = causal_attention(qkv_->forward(ln1_->forward(x_BTC)), heads_);
    const at::Tensor h_BTC = drop(proj_->forward(mixed)).add_(x_BTC);
    const at::Tensor wide = gelu_tanh(fc1_->forward(ln2_->forward(h_BTC)));
    return drop(fc2_->forward(wide)).add_(h_BTC);
  }

 private:
  std::int64_t heads_;
  std::shared_ptr<LayerNorm> ln1_;
  std::shared_ptr<Linear> qkv_;
  std::shared_ptr<Linear> proj_;
  std::shared_ptr<LayerNorm> ln2_;
  std::shared_ptr<Linear> fc1_;
  std::shared_ptr<Linear> fc2_;
};

/// Final norm and the token embedding as output matrix (Press and Wolf 2017).
class HeadBlock : public GptBlock {
 public:
  HeadBlock(const config::ModelSection& config, const at::Tensor& token_weight_VC)
      : GptBlock(0),
        ln_(register_module("ln", std::make_shared<LayerNorm>(config.width))),
        wte_(register_module("wte", std::make_shared<TiedWeight>(token_weight_VC))) {}

  at::Tensor forward(at::Tensor x_BTC) override {
    return apply_linear(ln_->forward(x_BTC), wte_->weight);
  }

 private:
  struct TiedWeight : torch::nn::Module {
    explicit TiedWeight(const at::Tensor& shared) : weight(register_parameter("weight", shared)) {}
    at::Tensor weight;
  };

  std::shared_ptr<LayerNorm> ln_;
  std::shared_ptr<TiedWeight> wte_;
};

}  // namespace

std::unique_ptr<Model> make_gpt(const config::ModelSection& config, std::int64_t seq_len,
                                Initializer& init) {
  auto model = std::make_unique<BlockList>();
  const auto embed = std::make_shared<EmbedBlock>(config, seq_len, init);
  model->add("embed", embed);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    model->add("blocks." + std::to_string(i), std::make_shared<TransformerBlock>(config, init));
  }
  model->add("head", std::make_shared<HeadBlock>(config, embed->token_weight()));
  return model;
}

}  // namespace lockstep::model
