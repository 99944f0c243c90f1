#include "lockstep/engine/evaluate.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "lockstep/comm/records/purpose.h"

namespace lockstep::engine {
namespace {

constexpr std::int64_t kEvalImages = 250;
constexpr std::int64_t kEvalTokens = 4096;
constexpr std::int64_t kFields = 3;  // loss sum, correct, weight

}  // namespace

std::int64_t eval_batch_samples(const data::Dataset& dataset, std::int64_t seq_len) {
  if (!dataset.counts_tokens()) return kEvalImages;
  return std::max<std::int64_t>(1, kEvalTokens / std::max<std::int64_t>(1, seq_len));
}

std::optional<EvalReport> evaluate(parallel::Session& session, const data::Dataset& dataset,
                                   comm::Group& group, std::int64_t eval_batch, std::int64_t step,
                                   const std::function<bool()>& stops_now) {
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t batches = (dataset.size() + eval_batch - 1) / eval_batch;
  // One row a batch, filled by the rank that ran it: a sum over ranks adds zeros only, so it is
  // exact. The row behind them counts the ranks that want no more of it.
  const at::Tensor rows = at::zeros({batches + 1, kFields}, at::TensorOptions().dtype(at::kDouble));
  double* row = rows.mutable_data_ptr<double>();
  std::vector<std::int64_t> ids;
  for (std::int64_t k = group.rank(); k < batches; k += group.size()) {
    if (stops_now && stops_now()) {
      row[batches * kFields] = 1;
      break;
    }
    const std::int64_t first = k * eval_batch;
    ids.resize(static_cast<std::size_t>(std::min(eval_batch, dataset.size() - first)));
    std::iota(ids.begin(), ids.end(), first);
    const model::EvalSum sum = session.evaluate(dataset.collate(ids, 0));
    row[k * kFields] = sum.loss_sum;
    row[k * kFields + 1] = static_cast<double>(sum.correct);
    row[k * kFields + 2] = static_cast<double>(sum.weight);
  }
  const comm::Purpose purpose("sums of the evaluation");
  group.all_reduce(rows, comm::ReduceOp::sum)->wait();
  if (row[batches * kFields] > 0) return std::nullopt;
  double loss_sum = 0;
  double correct = 0;
  double weight = 0;
  for (std::int64_t k = 0; k < batches; ++k) {
    loss_sum += row[k * kFields];
    correct += row[k * kFields + 1];
    weight += row[k * kFields + 2];
  }
  EvalReport report;
  report.step = step;
  report.weight = static_cast<std::int64_t>(weight);
  if (weight > 0) {
    report.loss = loss_sum / weight;
    report.accuracy = correct / weight;
  }
  const auto end = std::chrono::steady_clock::now();
  report.eval_s = std::chrono::duration<double>(end - begin).count();
  return report;
}

}  // namespace lockstep::engine
