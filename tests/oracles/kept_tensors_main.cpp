// Prints what small networks have by our count, one JSON object a line, for
// tests/oracles/kept_tensors_test.py: parameters, and bytes kept for backward of one sample in
// fp32.
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/model/stats/architecture_stats.h"

namespace {

namespace model = lockstep::model;
using model::Architecture;

constexpr std::int64_t kTokens = 32;

Architecture transformer(const char* name) {
  Architecture a;
  a.name = name;
  a.layers = 2;
  a.width = 64;
  a.heads = 4;
  a.kv_heads = 4;
  a.head_width = 16;
  a.feed_forward = 256;
  a.vocabulary = 100;
  a.max_positions = kTokens;
  a.default_sequence = kTokens;
  return a;
}

Architecture llama() {
  Architecture a = transformer("llama");
  a.kv_heads = 2;
  a.feed_forward = 160;
  a.gated = true;
  a.rms_norm = true;
  a.biased = false;
  a.tied = false;
  a.positions = model::Positions::rotary;
  return a;
}

Architecture t5() {
  Architecture a = transformer("t5");
  a.kind = model::ArchitectureKind::encoder_decoder;
  a.decoder_layers = 2;
  a.relu = true;
  a.rms_norm = true;
  a.biased = false;
  a.positions = model::Positions::relative;
  a.position_buckets = 8;
  return a;
}

Architecture bert() {
  Architecture a = transformer("bert");
  a.kind = model::ArchitectureKind::encoder;
  a.norm_after = true;
  a.token_types = 2;
  return a;
}

Architecture resnet(const char* name, bool bottleneck) {
  Architecture a;
  a.name = name;
  a.kind = model::ArchitectureKind::resnet;
  a.stage_blocks = {2, 1};
  a.stage_widths = {16, 32};
  a.bottleneck = bottleneck;
  a.small_stem = !bottleneck;
  a.image_size = 32;
  a.classes = 10;
  return a;
}

Architecture mlp() {
  Architecture a;
  a.name = "mlp";
  a.kind = model::ArchitectureKind::mlp;
  a.inputs = 30;
  a.hidden = {50, 40};
  a.classes = 10;
  return a;
}

void print(const Architecture& architecture) {
  const model::ModelStats stats = model::architecture_stats(architecture);
  double bytes = 0;
  double scores = 0;
  for (const model::BlockStats& block : stats.blocks) {
    for (const model::OperatorStats& op : block.operators) {
      for (const model::Kept& kept : op.kept) {
        (kept.of_scores ? scores : bytes) += 4 * kept.elements + kept.bytes;
      }
    }
  }
  const nlohmann::json line = {{"name", architecture.name},
                               {"parameters", stats.parameters()},
                               {"flops", stats.forward_flops_per_sample()},
                               {"kept_bytes", bytes},
                               {"scores_bytes", scores}};
  std::cout << line.dump() << "\n";
}

}  // namespace

int main() {
  for (const Architecture& a :
       {transformer("gpt"), llama(), t5(), bert(), resnet("resnet_basic", false),
        resnet("resnet_bottleneck", true), mlp()}) {
    print(a);
  }
  return 0;
}
