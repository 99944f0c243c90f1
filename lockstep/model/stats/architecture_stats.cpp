#include "lockstep/model/stats/architecture_stats.h"

#include <algorithm>

#include "lockstep/model/stats/architecture_kinds.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

Architecture gpt(const config::ModelSection& config, std::int64_t sequence) {
  Architecture a;
  a.layers = config.layers;
  a.width = config.width;
  a.heads = config.heads;
  a.kv_heads = config.heads;
  a.head_width = config.heads > 0 ? config.width / config.heads : 0;
  a.feed_forward = 4 * config.width;
  a.vocabulary = config.vocab_size;
  a.max_positions = sequence;
  a.default_sequence = sequence;
  a.dropout = config.dropout;
  return a;
}

Architecture resnet(const config::ModelSection& config) {
  Architecture a;
  a.kind = ArchitectureKind::resnet;
  for (const ResnetStage& stage : resnet_stages(config.depth)) {
    a.stage_blocks.push_back(stage.blocks);
    a.stage_widths.push_back(stage.width);
  }
  a.small_stem = true;
  a.image_size = config.image_size;
  a.image_channels = config.channels;
  a.classes = config.classes;
  return a;
}

Architecture mlp(const config::ModelSection& config) {
  Architecture a;
  a.kind = ArchitectureKind::mlp;
  a.inputs = config.inputs;
  a.hidden.assign(static_cast<std::size_t>(std::max<std::int64_t>(config.layers, 0)), config.width);
  a.classes = config.classes;
  return a;
}

}  // namespace

std::string_view to_text(ArchitectureKind kind) {
  switch (kind) {
    case ArchitectureKind::decoder:
      return "decoder";
    case ArchitectureKind::encoder:
      return "encoder";
    case ArchitectureKind::encoder_decoder:
      return "encoder_decoder";
    case ArchitectureKind::resnet:
      return "resnet";
    case ArchitectureKind::mlp:
      return "mlp";
    case ArchitectureKind::dlrm:
      return "dlrm";
    case ArchitectureKind::wide_deep:
      return "wide_deep";
  }
  throw Bug(__FILE__, __LINE__, "a kind of architecture without a name");
}

Architecture architecture_of(const config::ModelSection& config, std::int64_t sequence) {
  Architecture a;
  switch (config.family) {
    case config::Family::gpt:
      a = gpt(config, sequence);
      break;
    case config::Family::resnet:
      a = resnet(config);
      break;
    case config::Family::mlp:
      a = mlp(config);
      break;
  }
  a.name = "run.toml";
  return a;
}

ModelStats architecture_stats(const Architecture& architecture, std::int64_t sequence) {
  switch (architecture.kind) {
    case ArchitectureKind::decoder:
    case ArchitectureKind::encoder:
    case ArchitectureKind::encoder_decoder:
      return transformer_stats(architecture,
                               sequence > 0 ? sequence : architecture.default_sequence);
    case ArchitectureKind::resnet:
      return residual_stats(architecture);
    case ArchitectureKind::mlp:
    case ArchitectureKind::dlrm:
    case ArchitectureKind::wide_deep:
      return tabular_stats(architecture);
  }
  throw Bug(__FILE__, __LINE__, "a kind of architecture without statistics");
}

}  // namespace lockstep::model
