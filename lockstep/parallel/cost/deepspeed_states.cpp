#include "lockstep/parallel/cost/deepspeed_states.h"

#include <algorithm>

namespace lockstep::parallel {
namespace {

constexpr double kHalf = 2;        // bytes of a 16-bit weight
constexpr double kWhole = 4;       // of one that is loaded in fp32
constexpr double kStates = 18;     // 16-bit weight and gradient; fp32 gradient, master, two moments
constexpr double kHostRoom = 1.5;  // the estimators' allowance for buffers of the host

/// Every process of a host loads the whole model in fp32.
double loading(const DeepSpeedQuestion& q) { return kWhole * q.parameters * q.devices_per_host; }

DeepSpeedBytes stage_two(const DeepSpeedQuestion& q) {
  const double devices = 1.0 * q.devices_per_host * q.hosts;
  if (!q.offload_optimizer) {
    return {kHalf * q.parameters + kStates * q.parameters / devices, kHostRoom * loading(q)};
  }
  const double on_host = std::max(kWhole * devices, kStates - kHalf);
  return {kHalf * q.parameters, kHostRoom * q.parameters * on_host};
}

/// Of what is offloaded each host has its part.
double offloaded(const DeepSpeedQuestion& q, double bytes) {
  const double parted = bytes * q.parameters / q.hosts;
  return kHostRoom * (q.parted_from_start ? parted : std::max(loading(q), parted));
}

DeepSpeedBytes stage_three(const DeepSpeedQuestion& q) {
  const double devices = 1.0 * q.devices_per_host * q.hosts;
  const double gathered = (kHalf + kHalf) * q.largest_layer;  // its weights and gradients
  if (!q.offload_optimizer) {
    const double first =
        q.parted_from_start ? kWhole * q.largest_layer * q.devices_per_host : loading(q);
    return {gathered + kStates * q.parameters / devices, kHostRoom * first};
  }
  if (!q.offload_parameters) {
    return {gathered + kHalf * q.parameters / devices, offloaded(q, kStates - kHalf)};
  }
  return {gathered, offloaded(q, kStates)};
}

}  // namespace

DeepSpeedBytes deepspeed_states(const DeepSpeedQuestion& question) {
  return question.stage >= 3 ? stage_three(question) : stage_two(question);
}

}  // namespace lockstep::parallel
