#include <string>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/architecture_kinds.h"
#include "lockstep/model/stats/families.h"
#include "lockstep/model/stats/layer_stats.h"

namespace lockstep::model {
namespace {

constexpr std::int64_t kBottleneck = 4;  // outputs of such a block over its width

/// Planes of one image inside the network.
struct Planes {
  std::int64_t channels = 0;
  std::int64_t side = 0;  // pixels
  [[nodiscard]] double count() const {
    return static_cast<double>(channels) * static_cast<double>(side) * static_cast<double>(side);
  }
};

std::int64_t halved(std::int64_t side) { return (side + 1) / 2; }

/// ReLU keeps its output, which the next convolution's backward reads too.
void add_relu(BlockStats& block, const std::string& name, const Planes& out) {
  add_pointwise(block, name, Share::whole, out.count(), 2, out.count());
}

void add_pool(BlockStats& block, const Planes& in, const Planes& out) {
  add_pointwise(block, "pool", Share::whole, in.count() + out.count(), 1);
  // An int64 place of the largest pixel for each that comes out; its input is ReLU's output.
  block.operators.back().kept.push_back({out.count(), 8 * out.count(), Share::whole, false});
}

BlockStats stem(const Architecture& a, Planes& planes) {
  const Planes image{a.image_channels, a.image_size};
  const std::int64_t width = a.stage_widths.front();
  planes = {width, a.small_stem ? a.image_size : halved(a.image_size)};
  BlockStats block;
  block.name = "stem";
  add_convolution(
      block, {"conv", "bn", image.channels, width, a.small_stem ? 3 : 7, image.side, planes.side});
  block.operators.front().kept.push_back({image.count(), 0, Share::whole, false});
  add_relu(block, "relu", planes);
  if (!a.small_stem) {
    const Planes pooled{width, halved(planes.side)};
    add_pool(block, planes, pooled);
    planes = pooled;
  }
  finish(block);
  return block;
}

struct Convolutions {
  BlockStats& block;
  Planes planes;
  std::int64_t number = 0;
  void add(std::int64_t outputs, std::int64_t kernel, std::int64_t side) {
    const std::string digit = std::to_string(++number);
    add_convolution(
        block, {"conv" + digit, "bn" + digit, planes.channels, outputs, kernel, planes.side, side});
    planes = {outputs, side};
  }
};

BlockStats residual_block(const Architecture& a, const std::string& name, const Planes& in,
                          std::int64_t width, std::int64_t stride) {
  const std::int64_t side = stride == 1 ? in.side : halved(in.side);
  const Planes out{a.bottleneck ? kBottleneck * width : width, side};
  BlockStats block;
  block.name = name;
  block.is_layer = true;
  block.input_elements = in.count();
  Convolutions main{block, in};
  if (a.bottleneck) {
    main.add(width, 1, in.side);
    add_relu(block, "relu1", main.planes);
  }
  main.add(width, 3, side);
  add_relu(block, a.bottleneck ? "relu2" : "relu1", main.planes);
  main.add(out.channels, a.bottleneck ? 1 : 3, side);
  if (resnet_has_shortcut(in.channels, out.channels, stride)) {
    add_convolution(block,
                    {"shortcut_conv", "shortcut_bn", in.channels, out.channels, 1, in.side, side});
  }
  add_pointwise(block, "sum", Share::whole, out.count(), 3);
  add_relu(block, a.bottleneck ? "relu3" : "relu2", out);
  finish(block);
  return block;
}

BlockStats head(const Architecture& a, const Planes& in) {
  BlockStats block;
  block.name = "head";
  block.input_elements = in.count();
  add_pointwise(block, "pool", Share::whole, in.count(), 1);
  add_linear(block, {"fc", in.channels, a.classes, Split::column, true, 1});
  add_loss(block, 1, static_cast<double>(a.classes), Share::whole);
  finish(block);
  return block;
}

}  // namespace

ModelStats residual_stats(const Architecture& a) {
  ModelStats stats;
  stats.family = "resnet";
  const Saturated pixels = Saturated(a.image_size) * a.image_size;
  stats.input_bytes_per_sample = (pixels * a.image_channels * 4 + 8).value();
  Planes planes;
  stats.blocks.push_back(stem(a, planes));
  for (std::size_t stage = 0; stage < a.stage_blocks.size(); ++stage) {
    const std::int64_t width = a.stage_widths[stage];
    for (std::int64_t i = 0; i < a.stage_blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const std::string name = "stage" + std::to_string(stage + 1) + "." + std::to_string(i);
      stats.blocks.push_back(residual_block(a, name, planes, width, stride));
      planes = {a.bottleneck ? kBottleneck * width : width,
                stride == 1 ? planes.side : halved(planes.side)};
    }
  }
  stats.blocks.push_back(head(a, planes));
  return stats;
}

}  // namespace lockstep::model
