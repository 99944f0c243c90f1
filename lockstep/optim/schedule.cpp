#include "lockstep/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

// Defaults of torch.optim.lr_scheduler.OneCycleLR (Smith & Topin 2017).
constexpr double kOneCycleRise = 0.3;
constexpr double kOneCycleDivide = 25.0;
constexpr double kOneCycleFinalDivide = 1e4;

double cosine_between(double from, double to, double progress) {
  return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * progress));
}

double one_cycle(double peak, double warmup_steps, double step, double total_steps) {
  const double start = peak / kOneCycleDivide;
  const double rise = warmup_steps > 0 ? warmup_steps : kOneCycleRise * total_steps;
  const double top = rise - 1.0;  // the step that runs at the peak; need not be whole
  if (step <= top) return top > 0 ? cosine_between(start, peak, step / top) : peak;
  const double progress = (step - top) / (total_steps - 1.0 - top);
  return cosine_between(peak, start / kOneCycleFinalDivide, progress);
}

/// How far the fall has come, 0 at the step that first runs at the peak and 1 at the last.
double fall_progress(std::int64_t warmup_steps, std::int64_t step, std::int64_t total_steps) {
  const std::int64_t top = std::max<std::int64_t>(warmup_steps - 1, 0);
  const std::int64_t length = total_steps - 1 - top;
  return length > 0 ? static_cast<double>(step - top) / static_cast<double>(length) : 0.0;
}

}  // namespace

double learning_rate(const config::RunConfig& config, std::int64_t global_batch, std::int64_t step,
                     std::int64_t total_steps) {
  LOCKSTEP_CHECK(step >= 0, "the learning rate of a negative step");
  const auto& schedule = config.schedule;
  double peak = config.optimizer.lr;
  if (schedule.scale_lr_with_batch > 0) {
    peak *= static_cast<double>(global_batch) / static_cast<double>(schedule.scale_lr_with_batch);
  }
  step = std::min(step, std::max<std::int64_t>(total_steps - 1, 0));
  if (schedule.name == config::ScheduleName::one_cycle) {
    return one_cycle(peak, static_cast<double>(schedule.warmup_steps), static_cast<double>(step),
                     static_cast<double>(total_steps));
  }
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const double last = peak * schedule.final_lr_fraction;
  const double progress = fall_progress(schedule.warmup_steps, step, total_steps);
  switch (schedule.name) {
    case config::ScheduleName::linear:
      return peak + (last - peak) * progress;
    case config::ScheduleName::cosine:
      return cosine_between(peak, last, progress);
    default:
      return peak;
  }
}

}  // namespace lockstep::optim
