// Parameters, FLOPs and activation bytes of a model family without building it: what plans are made
// of.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/stats/operators.h"

namespace lockstep::model {

/// How a parameter may be split over tensor-parallel ranks.
enum class Split : std::uint8_t { none, column, row, vocab };

struct ParameterStats {
  std::string name;  // as model::named_parameters gives it
  std::vector<std::int64_t> shape;
  Split split = Split::none;
  bool keep_fp32 = false;   // stays fp32 under narrower compute (normalisation)
  bool of_experts = false;  // shape[0] experts, shared out over expert-parallel ranks
  bool is_table = false;    // rows that samples look up, of dlrm and wide_deep
  [[nodiscard]] std::int64_t count() const;
};

struct BlockStats {
  std::string name;
  std::vector<ParameterStats> parameters;  // a tied tensor stands in its first block only
  std::int64_t buffer_floats = 0;          // running statistics
  std::int64_t batch_norms = 0;            // layers that have them: two numbers a channel
  double forward_flops = 0;                // of one sample; backward = 2 x
  double activation_elements = 0;          // saved for backward, of one sample, in compute type
  double activation_fp32_bytes = 0;  // saved for backward whatever the compute type, of one sample
  double cast_input_elements = 0;    // saved in bf16, fp16 only: in fp32 it is the batch itself
  // Live beyond the saved ones in backward, of one sample: beside the gradient of a parameter ...
  double peak_temporary_elements = 0;
  double between_temporary_elements = 0;  // ... and while there is none
  // fp16 only: fp32 copies in backward's largest operator (model/products.h), of one sample, beside
  // peak_temporary_elements.
  double widened_elements = 0;
  bool makes_gradients_in_place = false;  // fp32 matrices: gradient_place.h
  bool is_layer = false;  // one of the repeated blocks: recomputed as a whole, or a pipeline's step
  double input_elements = 0;  // of one sample: what full recomputation keeps, stages hand on
  std::vector<OperatorStats> operators{};
};

struct ModelStats {
  std::string family;
  std::vector<BlockStats> blocks;
  bool counts_tokens = false;
  std::int64_t tokens_per_sample = 1;
  std::int64_t input_bytes_per_sample = 0;
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] double forward_flops_per_sample() const;
  /// Of forward and backward, nothing computed twice.
  [[nodiscard]] double model_flops_per_sample() const { return 3 * forward_flops_per_sample(); }
  /// What computing every layer once more in backward adds (full recomputation), or attention alone
  /// (selective).
  [[nodiscard]] double layer_flops_per_sample() const;
  [[nodiscard]] double attention_flops_per_sample() const;
};

/// Statistics of the configured model. \param seq_len tokens a sample (gpt).
[[nodiscard]] ModelStats model_stats(const config::ModelSection& config, std::int64_t seq_len);

/// Faults in [model] itself: heads that do not divide the width, a depth no ResNet has, ...
[[nodiscard]] std::vector<Problem> check_model(const config::ModelSection& config);

}  // namespace lockstep::model
