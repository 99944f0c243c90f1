// Seconds of all operators of a model's micro-batch, from measured points.
#pragma once
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/topology/kernel_rates.h"

namespace lockstep::parallel {

/// Forward and backward of every operator of `model`, on `samples` samples in type `type`.
[[nodiscard]] KernelSeconds operator_seconds(const KernelTable& table, config::Dtype type,
                                             const model::ModelStats& model, double samples);

}  // namespace lockstep::parallel
