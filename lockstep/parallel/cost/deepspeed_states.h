// What DeepSpeed's own estimators say of model states (estimate_zero2_model_states_mem_needs and
// estimate_zero3_..., DeepSpeed 0.10): for people who compare. They count neither activations nor
// buffers nor the context of a device.
#pragma once
#include <vector>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

struct DeepSpeedQuestion {
  double parameters = 0;
  double largest_layer = 0;  // parameters of it; stage 3 alone asks
  int stage = 3;             // 2 or 3
  int devices_per_host = 1;
  int hosts = 1;
  bool offload_optimizer = false;
  bool offload_parameters = false;  // stage 3 with offload_optimizer
  bool parted_from_start = true;    // zero.Init: no host ever holds the whole model
};

struct DeepSpeedBytes {
  double device = 0;  // of one device
  double host = 0;    // of one host
};

[[nodiscard]] DeepSpeedBytes deepspeed_states(const DeepSpeedQuestion& question);

}  // namespace lockstep::parallel
