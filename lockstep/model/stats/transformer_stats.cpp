#include <algorithm>
#include <string>

#include "lockstep/model/stats/architecture_kinds.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/layer_stats.h"
#include "lockstep/model/stats/transformer_layer.h"

namespace lockstep::model {
namespace {

constexpr std::int64_t kTokenBytes = 8;  // int64, as loaders hand them on

void add_table(BlockStats& block, const std::string& name, std::int64_t rows, std::int64_t width,
               Split split) {
  if (rows == 0) return;
  block.parameters.push_back({block.name + "." + name + ".weight", {rows, width}, split, false});
}

void add_lookup(BlockStats& block, const std::string& name, double tokens, double width) {
  OperatorStats op;
  op.name = name;
  op.kind = OperatorKind::embedding;
  op.m = tokens;
  op.n = width;
  op.share = Share::sequence;
  op.moved_elements = 2 * tokens * width;
  block.operators.push_back(std::move(op));
}

std::int64_t table_width(const Architecture& a) {
  return a.embedding_width > 0 ? a.embedding_width : a.width;
}

BlockStats embed(const Architecture& a, std::int64_t sequence) {
  const auto tokens = static_cast<double>(sequence);
  const auto width = static_cast<double>(a.width);
  BlockStats block;
  block.name = "embed";
  add_table(block, "wte", a.vocabulary, table_width(a), Split::vocab);
  add_lookup(block, "wte", tokens, static_cast<double>(table_width(a)));
  if (table_width(a) != a.width) {
    add_linear(block, {"project_in", a.embedding_width, a.width, Split::none, false, tokens});
  }
  if (a.positions == Positions::learned) {
    add_table(block, "wpe", std::max(a.max_positions, sequence), a.width, Split::none);
    add_pointwise(block, "positions", Share::sequence, tokens * width, 3);
  }
  add_table(block, "types", a.token_types, a.width, Split::none);
  if (a.kind == ArchitectureKind::encoder) {
    add_norm(block, {"ln", a.width, !a.rms_norm && a.norm_bias, tokens});
  }
  add_dropout(block, "dropout", tokens * width, a.dropout);
  finish(block);
  return block;
}

/// The end of an encoder under a decoder, and where the decoder's own tokens enter.
BlockStats bridge(const Architecture& a, double tokens) {
  const auto width = static_cast<double>(a.width);
  BlockStats block;
  block.name = "bridge";
  block.input_elements = tokens * width;
  add_norm(block, {"ln", a.width, !a.rms_norm && a.norm_bias, tokens});
  add_dropout(block, "dropout", tokens * width, a.dropout);
  // Every layer of the decoder looks at the encoder's output, which is kept once.
  add_pointwise(block, "source", Share::sequence, 0, 0, tokens * width);
  add_lookup(block, "targets", tokens, width);
  add_dropout(block, "target_dropout", tokens * width, a.dropout);
  finish(block);
  return block;
}

/// From the last layer to the loss over the vocabulary.
BlockStats language_head(const Architecture& a, double tokens) {
  BlockStats block;
  block.name = "head";
  block.input_elements = tokens * static_cast<double>(a.width);
  if (!a.norm_after) add_norm(block, {"ln", a.width, !a.rms_norm && a.norm_bias, tokens});
  if (a.kind == ArchitectureKind::encoder_decoder) {
    add_dropout(block, "dropout", block.input_elements, a.dropout);
  }
  if (table_width(a) != a.width) {
    add_linear(block, {"project_out", a.width, a.embedding_width, Split::none, false, tokens});
  }
  LinearLayer logits{"fc", table_width(a), a.vocabulary, Split::vocab, false, tokens};
  logits.has_weight = !a.tied;
  add_linear(block, logits);
  add_loss(block, tokens, static_cast<double>(a.vocabulary), Share::tensor);
  finish(block);
  return block;
}

/// BERT's: a layer over the first token, as sentence classifiers use it; two classes stand for any
/// few.
BlockStats pooler_head(const Architecture& a, double tokens) {
  constexpr double kClasses = 2;
  BlockStats block;
  block.name = "head";
  block.input_elements = tokens * static_cast<double>(a.width);
  LinearLayer pooler{"pooler", a.width, a.width, Split::none, true, 1};
  pooler.keeps_input = false;
  add_linear(block, pooler);
  // Its input is one row of the last layer's output, of which a view keeps all.
  block.operators.back().kept.push_back({block.input_elements, 0, Share::sequence, false});
  add_loss(block, 1, kClasses, Share::whole);
  finish(block);
  return block;
}

void add_layers(ModelStats& stats, const Architecture& a, const TransformerLayer& layer,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    stats.blocks.push_back(transformer_layer(a, layer, i));
  }
}

}  // namespace

ModelStats transformer_stats(const Architecture& a, std::int64_t sequence) {
  const auto tokens = static_cast<double>(sequence);
  const bool two_sided = a.kind == ArchitectureKind::encoder_decoder;
  ModelStats stats;
  stats.family = std::string(to_text(a.kind));
  stats.counts_tokens = true;
  stats.tokens_per_sample = sequence;
  stats.input_bytes_per_sample = sequence * 2 * kTokenBytes;  // tokens and what should come out
  stats.blocks.push_back(embed(a, sequence));
  if (two_sided) {
    add_layers(stats, a, {"encoder.", tokens, false, 0}, a.layers);
    stats.blocks.push_back(bridge(a, tokens));
    add_layers(stats, a, {"decoder.", tokens, true, tokens}, a.decoder_layers);
  } else {
    add_layers(stats, a, {"blocks.", tokens, a.kind == ArchitectureKind::decoder, 0}, a.layers);
  }
  const bool classifies = a.kind == ArchitectureKind::encoder;
  stats.blocks.push_back(classifies ? pooler_head(a, tokens) : language_head(a, tokens));
  return stats;
}

}  // namespace lockstep::model
