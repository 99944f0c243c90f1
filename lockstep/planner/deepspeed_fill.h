// Each "auto" of a ds_config.json with the value that a plan has for it, and why.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/planner/cluster_plan.h"

namespace lockstep::planner {

struct FilledKey {
  std::string key;    // "zero_optimization.reduce_bucket_size"
  std::string value;  // as JSON; empty = left as it is
  std::string why;    // a phrase
};

struct FilledDeepSpeed {
  std::vector<FilledKey> keys;  // in the order of the file
  std::string config;           // the whole file with them, as JSON on one line
};

/// As transformers (integrations/deepspeed.py) and DeepSpeed (runtime/config.py) fill them: sizes
/// of buckets by the model's width, numbers of the batch by the layout, precision by the recipe.
/// \param total_steps of the training; 0 = not known.
/// \pre job.deepspeed, job.recipe; the layout is the plan's.
[[nodiscard]] FilledDeepSpeed fill_deepspeed(const ClusterJob& job, std::int64_t total_steps);

}  // namespace lockstep::planner
