#include "lockstep/parallel/cost/operator_time.h"

namespace lockstep::parallel {
namespace {

using model::OperatorKind;
using model::OperatorStats;

constexpr double kFp32Bytes = 4;
/// Backward of what only moves, as a multiple of forward: the gradient is read and one is written,
/// and the input is read once more.
constexpr double kBackwardMoves = 1.5;
/// Logits are widened to fp32 and gone through for the largest, the sum, the difference and the
/// gradient: reads and writes of an element in forward, and as many in backward.
constexpr double kLossPasses = 2.5;
/// Scores written and read by softmax (2 of each), and by dropout with its mask of one byte.
constexpr double kSoftmaxForward = 2;
constexpr double kSoftmaxBackward = 3;
constexpr double kScoreDropout = 2.5;
/// Without flash attention queries, keys, values and the result are copied into another order.
constexpr double kReorder = 2;
/// FlashAttention computes the scores once more in backward: 2.5 times the FLOPs of forward (Dao et
/// al. 2022, arXiv:2205.14135), at 0.9 of its rate (Dao 2023, arXiv:2307.08691, figures 5 and 6).
constexpr double kFlashBackward = 2.75;

double peak(const OperatorSetting& setting) {
  return setting.element_bytes < kFp32Bytes ? setting.device->half_flops_per_s
                                            : setting.device->single_flops_per_s;
}

double moving(double bytes, const OperatorSetting& setting) {
  const DeviceModel& device = *setting.device;
  return setting.slowdown * bytes / (device.memory_bytes_per_s * device.memory_efficiency);
}

bool drops_scores(const OperatorStats& op) {
  for (const model::Kept& kept : op.kept) {
    if (kept.of_scores && kept.bytes > 0) return true;
  }
  return false;
}

OperatorTime attention(const OperatorStats& op, const OperatorSetting& setting) {
  const double part = setting.samples * share_of(op.share, setting) / setting.context;
  if (setting.flash > 0) {
    const double flops = op.forward_flops * (op.causal ? 0.5 : 1.0) * part;
    const double rate = peak(setting) * setting.device->attention_efficiency * setting.flash;
    const double moved = moving(op.moved_elements * part * setting.element_bytes, setting);
    const double forward = setting.slowdown * flops / rate;
    return {forward + moved, kFlashBackward * forward + kBackwardMoves * moved};
  }
  const double products =
      2 * product_time(op.m / setting.context, op.n, op.k,
                       op.times * setting.samples * share_of(op.share, setting), setting);
  const double scores = op.m * op.n * op.times * part * setting.element_bytes;
  const double dropped = drops_scores(op) ? kScoreDropout : 0;
  const double moved = kReorder * op.moved_elements * part * setting.element_bytes;
  return {products + moving(scores * (kSoftmaxForward + dropped) + moved, setting),
          2 * products +
              moving(scores * (kSoftmaxBackward + dropped) + kBackwardMoves * moved, setting)};
}

OperatorTime product(const OperatorStats& op, const OperatorSetting& setting) {
  const double share = share_of(op.share, setting);
  const double n = op.splits_inner ? op.n : op.n * share;
  const double k = op.splits_inner ? op.k * share : op.k;
  const double rows = op.m * setting.samples / setting.context;
  const double forward = product_time(rows, n, k, op.times, setting);
  return {forward, 2 * forward};
}

OperatorTime loss(const OperatorStats& op, const OperatorSetting& setting) {
  const double part = setting.samples * share_of(op.share, setting) / setting.context;
  const double pass = moving(kLossPasses * op.moved_elements * part * kFp32Bytes, setting);
  return {pass, pass};
}

}  // namespace

double share_of(model::Share share, const OperatorSetting& setting) {
  switch (share) {
    case model::Share::whole:
      return 1;
    case model::Share::sequence:
      return setting.sequence ? 1 / setting.tensor : 1;
    case model::Share::tensor:
    case model::Share::expert:
      return 1 / setting.tensor;
  }
  return 1;
}

double product_time(double m, double n, double k, double times, const OperatorSetting& setting) {
  if (!(m > 0 && n > 0 && k > 0)) return 0;
  const DeviceModel& device = *setting.device;
  const double size = 1 / (1 / m + 1 / n + 1 / k);
  const double at_most = times * 2 * m * n * k / (peak(setting) * device.most_efficiency);
  return setting.slowdown * (at_most * (1 + device.half_size / size) + device.launch_s);
}

OperatorTime operator_time(const OperatorStats& op, const OperatorSetting& setting) {
  switch (op.kind) {
    case OperatorKind::product:
    case OperatorKind::convolution:
      return product(op, setting);
    case OperatorKind::attention:
      return attention(op, setting);
    case OperatorKind::loss:
      return loss(op, setting);
    case OperatorKind::norm:
    case OperatorKind::pointwise:
    case OperatorKind::dropout:
    case OperatorKind::embedding:
    case OperatorKind::router:
      break;
  }
  const double part = setting.samples * share_of(op.share, setting) / setting.context;
  const double launch = setting.slowdown * setting.device->launch_s;
  const double moved = moving(op.moved_elements * part * setting.element_bytes, setting);
  return {moved + launch, kBackwardMoves * moved + launch};
}

}  // namespace lockstep::parallel
