// Batch normalisation (Ioffe and Szegedy 2015) over the samples of several ranks. Ranks exchange
// moments, so batches may differ in size or be empty; who exchanges them is plugged in.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace lockstep::model {

// B samples, C channels, n ranks; inputs are [B,C,...].

/// How the ranks of one layer tell each other small numbers. Every rank makes the same calls.
class StatisticsExchange : public torch::CustomClassHolder {
 public:
  /// Collective, in forward. \param own fp64 [k], on the CPU. \returns all ranks' [n,k], by rank.
  [[nodiscard]] virtual at::Tensor gather(const at::Tensor& own) = 0;
  /// Collective, in backward. \param own fp64 [k], on the CPU; may be overwritten. \returns the sum
  /// over all ranks.
  [[nodiscard]] virtual at::Tensor sum(const at::Tensor& own) = 0;
};

using SharedExchange = c10::intrusive_ptr<StatisticsExchange>;

/// What a layer holds. Any tensor may be undefined: no scale, no shift, no running statistics.
struct BatchNormTensors {
  at::Tensor weight;        // [C]
  at::Tensor bias;          // [C]
  at::Tensor running_mean;  // [C]: moves by `momentum` towards the mean of all ranks' samples
  at::Tensor running_var;   // [C]: likewise, to their unbiased variance (one sample: 0)
};

struct BatchNormNumbers {
  double momentum = 0.1;
  double eps = 1e-5;
};

/// Collective. Training: `input` normalised per channel by the statistics of all ranks' samples;
/// every rank computes them from the same numbers in the same order, hence to the same bits. A rank
/// without samples takes part with an input of no rows. Statistics are fp32 (fp64 for fp64)
/// whatever the type of the input; its memory format is kept. Backward is collective where `input`
/// needs a gradient; those of weight and bias are of this rank's samples only: the gradient reducer
/// adds them up. \param exchange null: this rank alone. \throws UsageError (LS-7003) when a
/// gradient of the gradient is asked for.
[[nodiscard]] at::Tensor batch_norm_over_ranks(const at::Tensor& input,
                                               const BatchNormTensors& tensors,
                                               const BatchNormNumbers& numbers,
                                               const SharedExchange& exchange);

/// Joins the rows' moments: (count, mean [C], M2 [C], the sum of squares around the mean), pairwise
/// and from the first row on (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
/// variance", equation 2.1). \param rows fp64 [n,1+2C], on the CPU. \returns fp64 [1+2C].
[[nodiscard]] at::Tensor merge_moments(const at::Tensor& rows);

}  // namespace lockstep::model
