#include <string>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

BlockStats linear_block(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  BlockStats block;
  block.name = name;
  block.parameters = {{name + ".fc.weight", {outputs, inputs}, Split::column, false},
                      {name + ".fc.bias", {outputs}, Split::column, false}};
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  block.forward_flops = 2 * in * out;
  // The output is kept by its ReLU and by the next layer; the head's by the loss.
  block.activation_elements = out;
  // Beside the weight's gradient: that of the output before and after ReLU, and that of the input.
  block.peak_temporary_elements = 2 * out + in;
  // fp16 widens input and output, and has no more of ReLU's than one of those two.
  block.widened_elements = in;
  block.makes_gradients_in_place = true;
  return block;
}

}  // namespace

ModelStats mlp_stats(const config::ModelSection& config, std::int64_t /*seq_len*/) {
  ModelStats stats;
  stats.family = "mlp";
  // fp32 features, int64 class
  stats.input_bytes_per_sample = (Saturated(config.inputs) * 4 + 8).value();
  std::int64_t features = config.inputs;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    stats.blocks.push_back(linear_block("layers." + std::to_string(i), features, config.width));
    features = config.width;
  }
  stats.blocks.push_back(linear_block("head", features, config.classes));
  stats.blocks.back().activation_fp32_bytes = 4;  // the loss keeps one logarithm a sample
  stats.blocks.back().peak_temporary_elements = static_cast<double>(config.classes + features);
  stats.blocks.front().cast_input_elements = static_cast<double>(config.inputs);
  // The batch needs no gradient.
  stats.blocks.front().peak_temporary_elements = 2 * static_cast<double>(config.width);
  return stats;
}

std::vector<Problem> check_mlp(const config::ModelSection& config) {
  std::vector<Problem> problems;
  require_at_least(problems, "layers", config.layers, 0);
  require_at_least(problems, "width", config.width, 1);
  require_at_least(problems, "inputs", config.inputs, 1);
  require_at_least(problems, "classes", config.classes, 2);
  return problems;
}

}  // namespace lockstep::model
