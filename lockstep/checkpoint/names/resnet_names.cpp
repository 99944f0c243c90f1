// Our residual networks (lockstep/model/resnet.h; with bottlenecks as model/stats names them) and
// those of He et al. (2016) as Hugging Face's transformers and as torchvision keep them. Names say
// nothing of the stem's kernel: 3 x 3 in ours, 7 x 7 in theirs.
#include "lockstep/checkpoint/names/name_tables.h"

namespace lockstep::checkpoint {
namespace {

constexpr auto kRules = std::to_array<NameRule>({
    {"stem", kNeeded, "stem.conv.weight", {"resnet.embedder.embedder.convolution.weight"}},
    {"stem", kNeeded, "stem.bn.weight", {"resnet.embedder.embedder.normalization.weight"}},
    {"stem", kNeeded, "stem.bn.bias", {"resnet.embedder.embedder.normalization.bias"}},
    {"stem",
     kOptional,
     "stem.bn.running_mean",
     {"resnet.embedder.embedder.normalization.running_mean"}},
    {"stem",
     kOptional,
     "stem.bn.running_var",
     {"resnet.embedder.embedder.normalization.running_var"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.conv{conv+1}.weight",
     {"resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.convolution.weight"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.bn{conv+1}.weight",
     {"resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.normalization.weight"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.bn{conv+1}.bias",
     {"resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.normalization.bias"}},
    {"layer",
     kOptional,
     "stage{stage+1}.{block}.bn{conv+1}.running_mean",
     {"resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.normalization.running_mean"}},
    {"layer",
     kOptional,
     "stage{stage+1}.{block}.bn{conv+1}.running_var",
     {"resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.normalization.running_var"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_conv.weight",
     {"resnet.encoder.stages.{stage}.layers.{block}.shortcut.convolution.weight"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_bn.weight",
     {"resnet.encoder.stages.{stage}.layers.{block}.shortcut.normalization.weight"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_bn.bias",
     {"resnet.encoder.stages.{stage}.layers.{block}.shortcut.normalization.bias"}},
    {"shortcut",
     kOptional,
     "stage{stage+1}.{block}.shortcut_bn.running_mean",
     {"resnet.encoder.stages.{stage}.layers.{block}.shortcut.normalization.running_mean"}},
    {"shortcut",
     kOptional,
     "stage{stage+1}.{block}.shortcut_bn.running_var",
     {"resnet.encoder.stages.{stage}.layers.{block}.shortcut.normalization.running_var"}},
    {"head", kNeeded, "head.fc.weight", {"classifier.1.weight"}},
    {"head", kNeeded, "head.fc.bias", {"classifier.1.bias"}},
});

constexpr auto kCounters = std::to_array<Counter>({
    {"stem.bn.running_mean", "resnet.embedder.embedder.normalization.num_batches_tracked"},
    {"stage{stage+1}.{block}.bn{conv+1}.running_mean",
     "resnet.encoder.stages.{stage}.layers.{block}.layer.{conv}.normalization.num_batches_tracked"},
    {"stage{stage+1}.{block}.shortcut_bn.running_mean",
     "resnet.encoder.stages.{stage}.layers.{block}.shortcut.normalization.num_batches_tracked"},
});

constexpr auto kTorchvisionRules = std::to_array<NameRule>({
    {"stem", kNeeded, "stem.conv.weight", {"conv1.weight"}},
    {"stem", kNeeded, "stem.bn.weight", {"bn1.weight"}},
    {"stem", kNeeded, "stem.bn.bias", {"bn1.bias"}},
    {"stem", kOptional, "stem.bn.running_mean", {"bn1.running_mean"}},
    {"stem", kOptional, "stem.bn.running_var", {"bn1.running_var"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.conv{conv+1}.weight",
     {"layer{stage+1}.{block}.conv{conv+1}.weight"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.bn{conv+1}.weight",
     {"layer{stage+1}.{block}.bn{conv+1}.weight"}},
    {"layer",
     kNeeded,
     "stage{stage+1}.{block}.bn{conv+1}.bias",
     {"layer{stage+1}.{block}.bn{conv+1}.bias"}},
    {"layer",
     kOptional,
     "stage{stage+1}.{block}.bn{conv+1}.running_mean",
     {"layer{stage+1}.{block}.bn{conv+1}.running_mean"}},
    {"layer",
     kOptional,
     "stage{stage+1}.{block}.bn{conv+1}.running_var",
     {"layer{stage+1}.{block}.bn{conv+1}.running_var"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_conv.weight",
     {"layer{stage+1}.{block}.downsample.0.weight"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_bn.weight",
     {"layer{stage+1}.{block}.downsample.1.weight"}},
    {"shortcut",
     kNeeded,
     "stage{stage+1}.{block}.shortcut_bn.bias",
     {"layer{stage+1}.{block}.downsample.1.bias"}},
    {"shortcut",
     kOptional,
     "stage{stage+1}.{block}.shortcut_bn.running_mean",
     {"layer{stage+1}.{block}.downsample.1.running_mean"}},
    {"shortcut",
     kOptional,
     "stage{stage+1}.{block}.shortcut_bn.running_var",
     {"layer{stage+1}.{block}.downsample.1.running_var"}},
    {"head", kNeeded, "head.fc.weight", {"fc.weight"}},
    {"head", kNeeded, "head.fc.bias", {"fc.bias"}},
});

constexpr auto kTorchvisionCounters = std::to_array<Counter>({
    {"stem.bn.running_mean", "bn1.num_batches_tracked"},
    {"stage{stage+1}.{block}.bn{conv+1}.running_mean",
     "layer{stage+1}.{block}.bn{conv+1}.num_batches_tracked"},
    {"stage{stage+1}.{block}.shortcut_bn.running_mean",
     "layer{stage+1}.{block}.downsample.1.num_batches_tracked"},
});

}  // namespace

const NameMap& resnet_names() {
  static constexpr NameMap kMap{
      .family = "resnet",
      .theirs = "ResNetForImageClassification of Hugging Face transformers",
      .base_prefix = "resnet.",
      .stream = {},
      .rules = kRules,
      .ties = {},
      .counters = kCounters,
      .unneeded = {},
      .spellings = {},
  };
  return kMap;
}

const NameMap& torchvision_resnet_names() {
  static constexpr NameMap kMap{
      .family = "resnet-torchvision",
      .theirs = "ResNet of torchvision",
      .base_prefix = {},
      .stream = {},
      .rules = kTorchvisionRules,
      .ties = {},
      .counters = kTorchvisionCounters,
      .unneeded = {},
      .spellings = {},
  };
  return kMap;
}

}  // namespace lockstep::checkpoint
