// The learning rate of each step: a pure function.
#pragma once
#include <cstdint>

#include "lockstep/config/run_config.h"

namespace lockstep::optim {

/// Rate of optimizer step `step` (0-based) of `total_steps`.
/// Warm-up: peak x (step + 1) / warmup_steps for the first warmup_steps (Goyal et al. 2017).
/// constant; linear and cosine fall from the peak to final_lr_fraction x peak at the last step;
/// one_cycle: as torch.optim.lr_scheduler.OneCycleLR (cosine, div_factor 25, final 1e4).
/// The peak is optimizer.lr, times global_batch / scale_lr_with_batch where that is set.
[[nodiscard]] double learning_rate(const config::RunConfig& config, std::int64_t global_batch,
                                   std::int64_t step, std::int64_t total_steps);

}  // namespace lockstep::optim
