#include <algorithm>
#include <string>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

/// Planes of one image inside the network.
struct Planes {
  std::int64_t channels = 0;
  std::int64_t side = 0;  // pixels
  [[nodiscard]] std::int64_t count() const { return channels * side * side; }
};

void add_norm(BlockStats& block, const std::string& name, std::int64_t channels) {
  block.parameters.push_back({name + ".weight", {channels}, Split::none, true});
  block.parameters.push_back({name + ".bias", {channels}, Split::none, true});
  block.buffer_floats += 2 * channels;
  ++block.batch_norms;
}

/// A convolution and its batch norm, whose input (the convolution's output) is kept for backward.
void add_conv_norm(BlockStats& block, const std::string& conv, const std::string& norm,
                   std::int64_t inputs, const Planes& out, std::int64_t kernel) {
  block.parameters.push_back({block.name + "." + conv + ".weight",
                              {out.channels, inputs, kernel, kernel},
                              Split::none,
                              false});
  add_norm(block, block.name + "." + norm, out.channels);
  block.forward_flops += 2.0 * static_cast<double>(inputs * kernel * kernel * out.count());
  block.activation_elements += static_cast<double>(out.count());
}

BlockStats stem(const config::ModelSection& config, const Planes& out) {
  BlockStats block;
  block.name = "stem";
  add_conv_norm(block, "conv", "bn", config.channels, out, 3);
  const std::int64_t image = config.channels * out.side * out.side;
  block.activation_elements += static_cast<double>(image + out.count());  // input and ReLU
  block.peak_temporary_elements = static_cast<double>(2 * out.count());
  block.widened_elements = static_cast<double>(image + out.count());
  return block;
}

BlockStats basic_block(const std::string& name, const Planes& in, const Planes& out,
                       std::int64_t stride) {
  BlockStats block;
  block.name = name;
  add_conv_norm(block, "conv1", "bn1", in.channels, out, 3);
  add_conv_norm(block, "conv2", "bn2", out.channels, out, 3);
  if (resnet_has_shortcut(in.channels, out.channels, stride)) {
    add_conv_norm(block, "shortcut_conv", "shortcut_bn", in.channels, out, 1);
  }
  block.activation_elements += static_cast<double>(2 * out.count());  // both ReLUs
  // Backward holds the gradient of the sum for the shortcut beside those of one convolution.
  block.peak_temporary_elements = static_cast<double>(2 * out.count() + in.count());
  block.widened_elements = static_cast<double>(std::max(in.count(), out.count()) + out.count());
  return block;
}

BlockStats head(std::int64_t width, std::int64_t classes) {
  BlockStats block;
  block.name = "head";
  block.parameters = {{"head.fc.weight", {classes, width}, Split::column, false},
                      {"head.fc.bias", {classes}, Split::column, false}};
  block.forward_flops = 2.0 * static_cast<double>(width * classes);
  block.activation_elements = static_cast<double>(width + classes);  // pooled planes, logits
  block.activation_fp32_bytes = 4;  // the loss keeps one logarithm a sample
  return block;
}

}  // namespace

std::vector<ResnetStage> resnet_stages(std::int64_t depth) {
  if (depth == 18) return {{64, 2}, {128, 2}, {256, 2}, {512, 2}};
  if (depth < 20 || depth > 56 || (depth - 20) % 12 != 0) return {};
  const std::int64_t blocks = (depth - 2) / 6;
  return {{16, blocks}, {32, blocks}, {64, blocks}};
}

ModelStats resnet_stats(const config::ModelSection& config, std::int64_t /*seq_len*/) {
  ModelStats stats;
  stats.family = "resnet";
  const Saturated pixels = Saturated(config.image_size) * config.image_size;
  stats.input_bytes_per_sample = (pixels * config.channels * 4 + 8).value();
  const std::vector<ResnetStage> stages = resnet_stages(config.depth);
  LOCKSTEP_CHECK(!stages.empty(), "statistics of a depth that check_model refuses");
  Planes planes{stages.front().width, config.image_size};
  stats.blocks.push_back(stem(config, planes));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::int64_t i = 0; i < stages[s].blocks; ++i) {
      const std::int64_t stride = s > 0 && i == 0 ? 2 : 1;
      const Planes out{stages[s].width, (planes.side + stride - 1) / stride};
      const std::string name = "stage" + std::to_string(s + 1) + "." + std::to_string(i);
      stats.blocks.push_back(basic_block(name, planes, out, stride));
      planes = out;
    }
  }
  stats.blocks.push_back(head(planes.channels, config.classes));
  stats.blocks.back().peak_temporary_elements = static_cast<double>(planes.count());
  return stats;
}

std::vector<Problem> check_resnet(const config::ModelSection& config) {
  std::vector<Problem> problems;
  require_at_least(problems, "channels", config.channels, 1);
  require_at_least(problems, "image_size", config.image_size, 8);
  require_at_least(problems, "classes", config.classes, 2);
  if (resnet_stages(config.depth).empty()) {
    problems.push_back({"LS-6002", "model.depth",
                        "no residual network has depth " + std::to_string(config.depth),
                        "use 18 (64 to 512 channels) or 20, 32, 44 or 56 (16 to 64 channels)"});
  }
  return problems;
}

}  // namespace lockstep::model
