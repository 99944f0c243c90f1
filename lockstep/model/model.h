// A model, written once for one device, as a list of blocks. LibTorch modules have no forward
// hooks, so parallel/block_runner runs the list: the place where strategies gather, recompute and
// cut.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/data/batch.h"
#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

/// One step of the list: output = forward(input). Deterministic but for draws from the default
/// generator, which the runner seeds before each forward when draws_random().
class Block : public torch::nn::Module {
 public:
  [[nodiscard]] virtual at::Tensor forward(at::Tensor input) = 0;
  [[nodiscard]] virtual bool draws_random() const { return false; }
};

/// Loss summed over samples or tokens (never a mean: the mean is taken over ranks and
/// accumulation).
struct LossSum {
  at::Tensor sum;           // scalar, fp32, with autograd history
  std::int64_t weight = 0;  // samples or tokens that it sums over
};

struct EvalSum {
  double loss_sum = 0;       // nats
  std::int64_t correct = 0;  // arg-max predictions that are right
  std::int64_t weight = 0;   // samples or tokens
};

/// Blocks and a loss. Parameter names are "<block name>.<name in the block>", PyTorch style.
class Model {
 public:
  virtual ~Model() = default;
  [[nodiscard]] virtual const std::vector<std::shared_ptr<Block>>& blocks() const = 0;
  /// Names of the blocks, in order: "stem", "stage1.0", "blocks.3", "head".
  [[nodiscard]] virtual const std::vector<std::string>& block_names() const = 0;
  /// Summed loss of the last block's output (computed in fp32 whatever the compute type).
  [[nodiscard]] virtual LossSum loss(const at::Tensor& output, const data::Batch& batch) const = 0;
  [[nodiscard]] virtual EvalSum evaluate(const at::Tensor& output,
                                         const data::Batch& batch) const = 0;
};

/// A parameter or buffer with its first name; further names of the same tensor are aliases (tied).
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  std::vector<std::string> aliases;
  bool keep_fp32 = false;  // normalisation weights, biases of norms and statistics: never cast
};
/// All parameters (each tensor once) in registration order. \see keep_fp32 for mixed precision.
[[nodiscard]] std::vector<NamedTensor> named_parameters(const Model& model);
[[nodiscard]] std::vector<NamedTensor> named_buffers(const Model& model);

/// Builds the configured family, initialised from `seed` alone: equal on every rank.
/// Convolution weights and activations are channels-last.
[[nodiscard]] std::unique_ptr<Model> make_model(const config::ModelSection& config,
                                                std::int64_t seq_len, std::uint64_t seed);

}  // namespace lockstep::model
