// From a ds_config.json to a layout: what the file fixes is taken, what it leaves open ("auto") is
// found. Pure functions.
#pragma once
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"
#include "lockstep/planner/cluster_plan.h"
#include "lockstep/planner/search.h"

namespace lockstep::planner {

/// Hugging Face's hidden_size: of several the largest; 0 where a model has none.
[[nodiscard]] double hidden_size(const model::Architecture& architecture);

/// DeepSpeed's habits with the sizes that the file gives them in the job's layout.
/// \pre job.deepspeed and job.recipe are set.
[[nodiscard]] parallel::MemoryStack deepspeed_memory_stack(const ClusterJob& job);

struct FilePrecision {
  std::string name;  // of a recipe, as --precision
  std::vector<Problem> problems;
  std::string note;  // a sentence; empty = nothing to say
};

/// "bf16" or "fp16" where the file enables it; "fp32" where it names one of them and `said` is off,
/// which it is too where it is missing; else as `said`.
/// \param given on the command line: then both must be the same.
[[nodiscard]] FilePrecision precision_by(const DeepSpeedFile& file, std::string said, bool given);

/// Stage, offloading and second copy into the job; checkpointed activations where
/// `recompute_is_said` does not hold. \pre job.deepspeed and job.recipe are set.
void put_deepspeed_states(ClusterJob& job, bool recompute_is_said);

/// Any two of train_batch_size = micro x accumulation x data ranks give the third, as DeepSpeed
/// does it. What is open is first taken from `said`; then the first stage that fits is found, and
/// the largest micro-batch. \pre the degrees of job.layout are settled.
/// \returns LS-6115: numbers that contradict each other, with the nearest that do not, and what no
/// stage of a pipeline goes with.
[[nodiscard]] std::vector<Problem> settle_deepspeed(ClusterJob& job,
                                                    const config::BatchSection& said);

/// Samples of a step for a search over `devices`; 0 where neither file nor `said` tells.
[[nodiscard]] std::int64_t deepspeed_global_batch(const DeepSpeedFile& file,
                                                  const config::BatchSection& said,
                                                  std::int64_t devices);

/// What a search has to leave as the file says.
[[nodiscard]] FixedParts fixed_by(const DeepSpeedFile& file);

}  // namespace lockstep::planner
