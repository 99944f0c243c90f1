// DeepSpeed's ds_config.json as a plan reads it: what the file fixes, and what it leaves to others
// by "auto".
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::planner {

/// One value of the file; neither number nor "auto" where the file does not name it.
template <typename Value>
struct DeepSpeedValue {
  std::optional<Value> fixed{};
  bool is_auto = false;
  [[nodiscard]] bool is_open() const { return !fixed.has_value(); }
  [[nodiscard]] Value or_else(Value missing) const { return fixed.value_or(missing); }
};

struct DeepSpeedFile {
  std::string where;  // the file, for messages
  std::string json;   // the whole document
  // Samples; train_batch = micro_batch x accumulation x data ranks.
  DeepSpeedValue<std::int64_t> train_batch;
  DeepSpeedValue<std::int64_t> micro_batch;
  DeepSpeedValue<std::int64_t> accumulation;
  DeepSpeedValue<std::int64_t> zero;  // stage
  DeepSpeedValue<parallel::Offload> offload_optimizer;
  DeepSpeedValue<parallel::Offload> offload_parameters;
  // Elements.
  DeepSpeedValue<std::int64_t> reduce_bucket;
  DeepSpeedValue<std::int64_t> allgather_bucket;
  DeepSpeedValue<std::int64_t> prefetch_bucket;
  DeepSpeedValue<std::int64_t> persistence_threshold;
  DeepSpeedValue<std::int64_t> live_parameters;
  DeepSpeedValue<std::int64_t> secondary_shard;  // ranks of hpZ; 1 = none
  DeepSpeedValue<bool> overlap_comm;
  DeepSpeedValue<bool> bf16;
  DeepSpeedValue<bool> fp16;
  bool checkpoints_activations = false;  // there are options for it
  std::string optimizer;                 // its type; empty = not in the file
  std::vector<std::string> automatic;    // every key that is "auto", as "optimizer.params.lr"
  std::vector<std::string> notes;        // a sentence each: what is not counted as the file says
};

/// What "auto" stands for in the training itself. As transformers' TrainingArguments have it, which
/// fill the file there; a RUN.toml says otherwise.
struct DeepSpeedFacts {
  double learning_rate = 5e-5;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double clipping = 1;
  std::int64_t warmup_steps = 0;
  std::string source = "transformers' default";  // of these numbers
};

[[nodiscard]] DeepSpeedFacts facts_of(const config::RunConfig& run);

/// A file that a plan goes by.
struct DeepSpeedChoice {
  DeepSpeedFile file;
  DeepSpeedFacts facts;
  std::map<std::string, std::string> because{};  // by key: why the plan's value is as it is
};

/// Comments are allowed, as DeepSpeed allows them. \throws UsageError LS-6115 with all that cannot
/// be: wrong types and words, numbers out of range, misspelt keys, parts that exclude each other.
[[nodiscard]] DeepSpeedFile read_deepspeed_file(std::string_view json, const std::string& where);

}  // namespace lockstep::planner
