// Loss and accuracy over a whole data set, each sample counted once, equal for every number of
// ranks.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/comm/group.h"
#include "lockstep/data/dataset.h"
#include "lockstep/engine/values/step_report.h"
#include "lockstep/parallel/session.h"

namespace lockstep::engine {

/// Collective. Batch k holds the samples [k, k + 1) x eval_batch whatever the number of ranks;
/// ranks take batches in turn, and batch sums are added in batch order: no padding, no sample
/// twice, and the same bits on every rank and for every group size.
/// \param stops_now asked before each batch; null = never.
/// \returns nothing, on every rank, when one has answered yes.
[[nodiscard]] std::optional<EvalReport> evaluate(parallel::Session& session,
                                                 const data::Dataset& dataset, comm::Group& group,
                                                 std::int64_t eval_batch, std::int64_t step,
                                                 const std::function<bool()>& stops_now = {});

/// Samples of one evaluation batch: about `kEvalUnits` images or tokens, a function of the data
/// alone.
[[nodiscard]] std::int64_t eval_batch_samples(const data::Dataset& dataset, std::int64_t seq_len);

}  // namespace lockstep::engine
