#include <string>
#include <vector>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/architecture_kinds.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/layer_stats.h"

namespace lockstep::model {
namespace {

/// A layer and its ReLU, whose output the next layer keeps too: it counts here.
void add_hidden(BlockStats& block, const std::string& name, std::int64_t inputs,
                std::int64_t outputs) {
  LinearLayer layer{name, inputs, outputs, Split::column, true, 1};
  layer.keeps_input = false;
  add_linear(block, layer);
  const auto out = static_cast<double>(outputs);
  add_pointwise(block, name + "_relu", Share::tensor, out, 2, out);
}

void add_hidden_layers(BlockStats& block, std::int64_t inputs,
                       const std::vector<std::int64_t>& widths, const std::string& prefix) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    add_hidden(block, prefix + std::to_string(i), inputs, widths[i]);
    inputs = widths[i];
  }
}

void add_logits(BlockStats& block, std::int64_t inputs, std::int64_t classes) {
  LinearLayer layer{"fc", inputs, classes, Split::column, true, 1};
  layer.keeps_input = false;  // ReLU before it does
  add_linear(block, layer);
  add_loss(block, 1, static_cast<double>(classes), Share::whole);
}

/// What the first layer keeps of a sample.
void keep_input(BlockStats& block, std::int64_t inputs) {
  block.operators.front().kept.push_back({static_cast<double>(inputs), 0, Share::whole, false});
}

void add_tables(BlockStats& block, const Architecture& a, const std::string& name,
                std::int64_t width) {
  for (std::size_t i = 0; i < a.table_rows.size(); ++i) {
    block.parameters.push_back({block.name + "." + name + std::to_string(i) + ".weight",
                                {a.table_rows[i], width},
                                Split::none,
                                false,
                                false,
                                true});
  }
  OperatorStats op;
  op.name = name;
  op.kind = OperatorKind::embedding;
  op.m = static_cast<double>(a.table_rows.size());
  op.n = static_cast<double>(width);
  op.moved_elements = 2 * op.m * op.n;
  op.kept.push_back({op.m * op.n, 8 * op.m, Share::whole, false});  // rows and where they stood
  block.operators.push_back(std::move(op));
}

BlockStats named(const char* name, double input_elements) {
  BlockStats block;
  block.name = name;
  block.input_elements = input_elements;
  return block;
}

void mlp_blocks(ModelStats& stats, const Architecture& a) {
  std::int64_t features = a.inputs;
  for (std::size_t i = 0; i < a.hidden.size(); ++i) {
    BlockStats block;
    block.name = "layers." + std::to_string(i);
    block.is_layer = true;
    block.input_elements = static_cast<double>(features);
    add_hidden(block, "fc", features, a.hidden[i]);
    if (i == 0) keep_input(block, features);
    finish(block);
    stats.blocks.push_back(std::move(block));
    features = a.hidden[i];
  }
  BlockStats head = named("head", static_cast<double>(features));
  add_logits(head, features, a.classes);
  if (a.hidden.empty()) keep_input(head, features);
  finish(head);
  stats.blocks.push_back(std::move(head));
}

/// Dense features through the bottom layers; then the products of each two of them and the tables'
/// rows, beside the dense vector itself, into the top layers.
void dlrm_blocks(ModelStats& stats, const Architecture& a) {
  BlockStats tables = named("tables", 0);
  add_tables(tables, a, "table", a.embedding_width);
  finish(tables);
  stats.blocks.push_back(std::move(tables));
  BlockStats bottom = named("bottom", 0);
  add_hidden_layers(bottom, a.inputs, a.bottom, "fc");
  keep_input(bottom, a.inputs);
  finish(bottom);
  stats.blocks.push_back(std::move(bottom));

  const auto vectors = static_cast<std::int64_t>(a.table_rows.size()) + 1;
  const std::int64_t features = vectors * (vectors - 1) / 2 + a.embedding_width;
  BlockStats top = named("head", static_cast<double>(vectors * a.embedding_width));
  OperatorStats interaction;
  interaction.name = "interaction";
  interaction.m = static_cast<double>(vectors);
  interaction.n = interaction.m;
  interaction.k = static_cast<double>(a.embedding_width);
  interaction.forward_flops = 2 * interaction.m * interaction.n * interaction.k;
  interaction.backward_flops = 2 * interaction.forward_flops;
  interaction.moved_elements = interaction.m * (interaction.n + interaction.k);
  interaction.kept.push_back({static_cast<double>(features), 0, Share::whole, false});
  top.operators.push_back(std::move(interaction));
  add_hidden_layers(top, features, a.hidden, "fc_top");
  add_logits(top, a.hidden.empty() ? features : a.hidden.back(), a.classes);
  finish(top);
  stats.blocks.push_back(std::move(top));
}

/// A linear model over all rows and features beside layers over the tables' rows and the features.
void wide_deep_blocks(ModelStats& stats, const Architecture& a) {
  BlockStats tables = named("tables", 0);
  add_tables(tables, a, "wide", 1);
  add_tables(tables, a, "deep", a.embedding_width);
  finish(tables);
  stats.blocks.push_back(std::move(tables));
  const std::int64_t features =
      static_cast<std::int64_t>(a.table_rows.size()) * a.embedding_width + a.inputs;
  BlockStats top = named("head", static_cast<double>(features));
  LinearLayer wide{"wide", a.inputs, a.classes, Split::none, true, 1};
  add_linear(top, wide);
  add_hidden_layers(top, features, a.hidden, "fc_top");
  add_logits(top, a.hidden.empty() ? features : a.hidden.back(), a.classes);
  finish(top);
  stats.blocks.push_back(std::move(top));
}

}  // namespace

ModelStats tabular_stats(const Architecture& a) {
  ModelStats stats;
  stats.family = std::string(to_text(a.kind));
  // fp32 features, int64 rows of the tables, int64 class
  const auto tables = static_cast<std::int64_t>(a.table_rows.size());
  stats.input_bytes_per_sample = (Saturated(a.inputs) * 4 + 8 * tables + 8).value();
  if (a.kind == ArchitectureKind::mlp) mlp_blocks(stats, a);
  if (a.kind == ArchitectureKind::dlrm) dlrm_blocks(stats, a);
  if (a.kind == ArchitectureKind::wide_deep) wide_deep_blocks(stats, a);
  return stats;
}

}  // namespace lockstep::model
