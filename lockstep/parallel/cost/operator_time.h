// Seconds of one operator on one rank: the larger share of what plans for any cluster are made of.
//
// A product of m x k by k x n takes 2 m n k / (peak most_efficiency) x (1 + half_size / size), with
// size = 1 / (1/m + 1/n + 1/k). That is the time of its multiplications and, beside it, of moving
// its three matrices: size is their FLOPs for each element moved, but for a factor. Everything else
// takes the bytes that it reads and writes over the memory's bandwidth.
#pragma once
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/topology/machine.h"

namespace lockstep::parallel {

/// What a rank has of an operator, and how it is computed there.
struct OperatorSetting {
  const DeviceModel* device = nullptr;
  double samples = 1;  // of a micro-batch
  double tensor = 1;   // ranks that share as operators say
  double context = 1;  // ranks that share each sample's tokens
  bool sequence = false;
  double element_bytes = 2;  // of the compute type
  /// Flash attention: of device->attention_efficiency; 0 = scores are written and read.
  double flash = 0;
  double slowdown = 1;  // of everything, by the software
};

struct OperatorTime {
  double forward_s = 0;
  double backward_s = 0;
};

[[nodiscard]] OperatorTime operator_time(const model::OperatorStats& op,
                                         const OperatorSetting& setting);

/// One product, whole. \param times as often.
[[nodiscard]] double product_time(double m, double n, double k, double times,
                                  const OperatorSetting& setting);

/// The part of a tensor group of t ranks in what is shared like this.
[[nodiscard]] double share_of(model::Share share, const OperatorSetting& setting);

}  // namespace lockstep::parallel
