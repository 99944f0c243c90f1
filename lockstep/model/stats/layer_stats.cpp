#include "lockstep/model/stats/layer_stats.h"

#include <algorithm>

namespace lockstep::model {
namespace {

double as_double(std::int64_t number) { return static_cast<double>(number); }

Kept elements(double count, Share share) { return {count, 0, share, false}; }

std::string in_block(const BlockStats& block, const std::string& name, const char* what) {
  return block.name + "." + name + "." + what;
}

}  // namespace

void add_linear(BlockStats& block, const LinearLayer& layer) {
  const bool column = layer.split == Split::column || layer.split == Split::vocab;
  if (layer.has_weight) {
    block.parameters.push_back(
        {in_block(block, layer.name, "weight"), {layer.outputs, layer.inputs}, layer.split, false});
  }
  if (layer.biased) {
    // Column-split layers share their bias out with their rows; row-split ones keep it whole.
    block.parameters.push_back({in_block(block, layer.name, "bias"),
                                {layer.outputs},
                                column ? layer.split : Split::none,
                                false});
  }
  OperatorStats op;
  op.name = layer.name;
  op.m = layer.rows;
  op.n = as_double(layer.outputs);
  op.k = as_double(layer.inputs);
  op.share = layer.split == Split::none ? Share::whole : Share::tensor;
  op.splits_inner = layer.split == Split::row;
  op.forward_flops = 2 * op.m * op.n * op.k;
  op.backward_flops = 2 * op.forward_flops;
  op.moved_elements = op.m * (op.n + op.k);
  op.weight_elements = op.n * op.k;
  if (layer.keeps_input) {
    const Share share = op.splits_inner ? Share::tensor : Share::sequence;
    op.kept.push_back(elements(op.m * op.k, share));
  }
  block.operators.push_back(std::move(op));
}

void add_norm(BlockStats& block, const NormLayer& layer) {
  const std::string weight = in_block(block, layer.name, "weight");
  block.parameters.push_back({weight, {layer.width}, Split::none, true});
  if (layer.biased) {
    const std::string bias = in_block(block, layer.name, "bias");
    block.parameters.push_back({bias, {layer.width}, Split::none, true});
  }
  const double count = layer.rows * as_double(layer.width);
  OperatorStats op;
  op.name = layer.name;
  op.kind = OperatorKind::norm;
  op.m = layer.rows;
  op.n = as_double(layer.width);
  op.share = layer.share;
  op.moved_elements = 2 * count;
  op.kept.push_back(elements(count, layer.share));
  block.operators.push_back(std::move(op));
}

void add_attention(BlockStats& block, const AttentionLayer& layer) {
  OperatorStats op;
  op.name = "attention";
  op.kind = OperatorKind::attention;
  op.m = layer.queries;
  op.n = layer.keys;
  op.k = layer.head_width;
  op.times = layer.heads;
  op.share = Share::tensor;
  op.causal = layer.causal;
  op.forward_flops = 4 * op.m * op.n * op.k * op.times;
  op.backward_flops = 2 * op.forward_flops;
  const double queries = op.m * op.k * op.times;
  const double keys_and_values = 2 * op.n * op.k * layer.kv_heads;
  const double scores = op.m * op.n * op.times;
  op.moved_elements = 2 * queries + keys_and_values;
  op.kept.push_back(elements(queries + keys_and_values, Share::tensor));
  op.kept.push_back({scores, 0, Share::tensor, true});                              // of softmax
  if (layer.dropout > 0) op.kept.push_back({scores, scores, Share::tensor, true});  // and a mask
  block.operators.push_back(std::move(op));
}

void add_convolution(BlockStats& block, const ConvolutionLayer& layer) {
  block.parameters.push_back({in_block(block, layer.name, "weight"),
                              {layer.outputs, layer.inputs, layer.kernel, layer.kernel},
                              Split::none,
                              false});
  const double outputs = as_double(layer.outputs);
  const double pixels = as_double(layer.side) * as_double(layer.side);
  OperatorStats op;
  op.name = layer.name;
  op.kind = OperatorKind::convolution;
  op.m = pixels;
  op.n = outputs;
  op.kernel_area = as_double(layer.kernel * layer.kernel);
  op.k = as_double(layer.inputs) * op.kernel_area;
  op.forward_flops = 2 * op.m * op.n * op.k;
  op.backward_flops = 2 * op.forward_flops;
  op.moved_elements =
      as_double(layer.inputs) * as_double(layer.in_side) * as_double(layer.in_side) +
      pixels * outputs;
  op.weight_elements = op.n * op.k;
  block.operators.push_back(std::move(op));
  add_norm(block, {layer.norm, layer.outputs, true, pixels, Share::whole});
  block.buffer_floats += 2 * layer.outputs;
  ++block.batch_norms;
}

void add_pointwise(BlockStats& block, const std::string& name, Share share, double count,
                   double passes, double kept_elements) {
  OperatorStats op;
  op.name = name;
  op.kind = OperatorKind::pointwise;
  op.share = share;
  op.moved_elements = passes * count;
  if (kept_elements > 0) op.kept.push_back(elements(kept_elements, share));
  block.operators.push_back(std::move(op));
}

void add_dropout(BlockStats& block, const std::string& name, double count, double probability) {
  if (!(probability > 0)) return;
  OperatorStats op;
  op.name = name;
  op.kind = OperatorKind::dropout;
  op.share = Share::sequence;
  op.moved_elements = 2 * count;
  op.kept.push_back({0, count, Share::sequence, false});
  block.operators.push_back(std::move(op));
}

void add_loss(BlockStats& block, double rows, double classes, Share share) {
  OperatorStats op;
  op.name = "loss";
  op.kind = OperatorKind::loss;
  op.m = rows;
  op.n = classes;
  op.share = share;
  op.moved_elements = 2 * rows * classes;
  op.kept.push_back({0, 4 * rows * classes, share, false});
  block.operators.push_back(std::move(op));
}

void finish(BlockStats& block) {
  for (const OperatorStats& op : block.operators) {
    block.forward_flops += op.forward_flops;
    block.peak_temporary_elements = std::max(block.peak_temporary_elements, op.moved_elements);
    for (const Kept& kept : op.kept) {
      block.activation_elements += kept.elements;
      block.activation_fp32_bytes += kept.bytes;
    }
  }
}

}  // namespace lockstep::model
