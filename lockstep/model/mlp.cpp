#include "lockstep/model/mlp.h"

#include <ATen/ATen.h>

#include <string>

#include "lockstep/model/block_list.h"
#include "lockstep/model/layers.h"

namespace lockstep::model {
namespace {

// B samples, F features.

class HiddenBlock : public Block {
 public:
  HiddenBlock(Initializer& init, std::int64_t inputs, std::int64_t width)
      : fc_(register_module("fc", std::make_shared<Linear>(init, inputs, width))) {}

  at::Tensor forward(at::Tensor input) override {
    return fc_->forward_relu(as_weight(input.flatten(1), fc_->weight));
  }

 private:
  std::shared_ptr<Linear> fc_;
};

class HeadBlock : public Block {
 public:
  HeadBlock(Initializer& init, std::int64_t inputs, std::int64_t classes)
      : fc_(register_module("fc", std::make_shared<Linear>(init, inputs, classes))) {}

  at::Tensor forward(at::Tensor hidden_BF) override {
    return fc_->forward(as_weight(hidden_BF.flatten(1), fc_->weight));
  }

 private:
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::unique_ptr<Model> make_mlp(const config::ModelSection& config, Initializer& init) {
  auto model = std::make_unique<BlockList>();
  std::int64_t features = config.inputs;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    model->add("layers." + std::to_string(i),
               std::make_shared<HiddenBlock>(init, features, config.width));
    features = config.width;
  }
  model->add("head", std::make_shared<HeadBlock>(init, features, config.classes));
  return model;
}

}  // namespace lockstep::model
