#include "lockstep/model/resnet.h"

#include <ATen/ATen.h>

#include <string>

#include "lockstep/model/block_list.h"
#include "lockstep/model/layers.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

// B samples, C channels, H W pixels.

/// `images` channels-last. One plane fits both layouts; its strides decide which one the
/// convolution takes, so they are spelt out.
at::Tensor channels_last(const at::Tensor& images_BCHW) {
  at::Tensor images = images_BCHW.contiguous(at::MemoryFormat::ChannelsLast);
  if (images.size(1) > 1) return images;
  const std::int64_t height = images.size(2);
  const std::int64_t width = images.size(3);
  return images.as_strided(images.sizes(), {height * width, 1, width, 1});
}

class StemBlock : public Block {
 public:
  StemBlock(Initializer& init, std::int64_t planes, std::int64_t width)
      : conv_(register_module("conv", std::make_shared<Conv2d>(init, planes, width, 3, 1))),
        bn_(register_module("bn", std::make_shared<BatchNorm>(width))) {}

  at::Tensor forward(at::Tensor images_BCHW) override {
    const at::Tensor input = as_weight(channels_last(images_BCHW), conv_->weight);
    return bn_->forward(conv_->forward(input)).relu_();
  }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm> bn_;
};

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). Sums and ReLUs in place: autograd keeps the
/// convolutions' outputs and the ReLUs' results, never what is overwritten here.
class BasicBlock : public Block {
 public:
  BasicBlock(Initializer& init, std::int64_t inputs, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", std::make_shared<Conv2d>(init, inputs, width, 3, stride))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(width))),
        conv2_(register_module("conv2", std::make_shared<Conv2d>(init, width, width, 3, 1))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(width))) {
    if (!resnet_has_shortcut(inputs, width, stride)) return;
    shortcut_conv_ =
        register_module("shortcut_conv", std::make_shared<Conv2d>(init, inputs, width, 1, stride));
    shortcut_bn_ = register_module("shortcut_bn", std::make_shared<BatchNorm>(width));
  }

  at::Tensor forward(at::Tensor x_BCHW) override {
    at::Tensor y = bn1_->forward(conv1_->forward(x_BCHW)).relu_();
    y = bn2_->forward(conv2_->forward(y));
    y.add_(shortcut_conv_ ? shortcut_bn_->forward(shortcut_conv_->forward(x_BCHW)) : x_BCHW);
    return y.relu_();
  }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  std::shared_ptr<Conv2d> shortcut_conv_;
  std::shared_ptr<BatchNorm> shortcut_bn_;
};

class HeadBlock : public Block {
 public:
  HeadBlock(Initializer& init, std::int64_t width, std::int64_t classes)
      : fc_(register_module("fc", std::make_shared<Linear>(init, width, classes))) {}

  at::Tensor forward(at::Tensor x_BCHW) override { return fc_->forward(x_BCHW.mean({2, 3})); }

 private:
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::unique_ptr<Model> make_resnet(const config::ModelSection& config, Initializer& init) {
  const std::vector<ResnetStage> stages = resnet_stages(config.depth);
  auto model = std::make_unique<BlockList>();
  std::int64_t width = stages.front().width;
  model->add("stem", std::make_shared<StemBlock>(init, config.channels, width));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::int64_t i = 0; i < stages[s].blocks; ++i) {
      const std::int64_t stride = s > 0 && i == 0 ? 2 : 1;
      model->add("stage" + std::to_string(s + 1) + "." + std::to_string(i),
                 std::make_shared<BasicBlock>(init, width, stages[s].width, stride));
      width = stages[s].width;
    }
  }
  model->add("head", std::make_shared<HeadBlock>(init, width, config.classes));
  return model;
}

}  // namespace lockstep::model
