// Bytes of parameters, gradients and optimizer on one device.
#pragma once
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Parameters that one device computes with, before ZeRO spreads their states.
struct DeviceParameters {
  double dense = 0;
  double expert = 0;  // of expert-parallel ranks: fewer ranks have the same ones
  double table = 0;   // of embedding tables, which no gradient buffer and no cast has
  double table_rows = 0;
  [[nodiscard]] double count() const { return dense + expert; }
};

/// \param stage of the pipeline, from 0.
[[nodiscard]] DeviceParameters parameters_of_stage(const model::ModelStats& model,
                                                   const Layout& layout, int stage);
/// Elements of one parameter on a device: split over tensor ranks, experts over expert ranks too.
[[nodiscard]] double elements_on_device(const model::ParameterStats& parameter,
                                        const Layout& layout);

/// Where the bytes are: on the device, in the host's memory, on its NVMe disk; all of one device.
struct StateBytes {
  double parameters = 0;
  double gradients = 0;
  double masters = 0;
  double moments = 0;
  double host = 0;
  double nvme = 0;
  [[nodiscard]] double optimizer() const { return masters + moments; }
  [[nodiscard]] double device() const { return parameters + gradients + optimizer(); }
};

/// ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054, section 5): of Psi parameters and K = masters +
/// moments over N ranks, stage 1 has (2 + 2 + K / N) Psi, stage 2 (2 + (2 + K) / N) Psi, stage 3
/// (2 + 2 + K) / N Psi bytes. Megatron's distributed optimizer is stage 1. What is offloaded
/// leaves the device: the optimizer with main gradients and, from stage 2 on, gradients (ZeRO-
/// Offload, arXiv:2101.06840); parameters of stage 3 (ZeRO-Infinity, arXiv:2104.07857).
[[nodiscard]] StateBytes state_bytes(const DeviceParameters& parameters, const Layout& layout,
                                     const PrecisionRecipe& recipe);

}  // namespace lockstep::parallel
