#include "lockstep/engine/values/straggler.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/engine/values/phase_rows.h"

namespace lockstep::engine {
namespace {

void add_to(PhaseTimes& sum, const PhaseTimes& times) {
  sum.step_s += times.step_s;
  for (const PhaseRow& row : kPhaseRows) sum.*row.seconds += times.*row.seconds;
}

PhaseTimes divided(PhaseTimes times, int by) {
  times.step_s /= by;
  for (const PhaseRow& row : kPhaseRows) times.*row.seconds /= by;
  return times;
}

std::vector<PhaseTimes> means(const std::vector<PhaseTimes>& sums, int steps) {
  std::vector<PhaseTimes> means;
  for (const PhaseTimes& sum : sums) means.push_back(divided(sum, steps));
  return means;
}

/// Of what `number` says of all ranks but `left_out`.
template <typename Number>
double median_without(std::span<const PhaseTimes> per_rank, std::size_t left_out, Number number) {
  std::vector<double> values;
  for (std::size_t r = 0; r < per_rank.size(); ++r) {
    if (r != left_out) values.push_back(number(per_rank[r]));
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

PhaseTimes medians_without(std::span<const PhaseTimes> per_rank, std::size_t left_out) {
  PhaseTimes medians;
  medians.step_s = median_without(per_rank, left_out, [](const auto& t) { return t.step_s; });
  for (const PhaseRow& row : kPhaseRows) {
    medians.*row.seconds =
        median_without(per_rank, left_out, [&](const auto& t) { return t.*row.seconds; });
  }
  return medians;
}

/// Where `times` exceeds `others` most, waiting left out.
const char* slowest_phase(const PhaseTimes& times, const PhaseTimes& others) {
  const char* phase = "other";
  double most_s = other_s(times) - other_s(others);
  for (const PhaseRow& row : kPhaseRows) {
    const double more_s = times.*row.seconds - others.*row.seconds;
    if (row.seconds == &PhaseTimes::sync_s || more_s <= most_s) continue;
    most_s = more_s;
    phase = row.name;
  }
  return phase;
}

}  // namespace

double Straggler::share() const {
  const double others_s = compute_s(times) - slower_s;
  return others_s > 0 ? slower_s / others_s : 0;
}

bool Straggler::is_straggler() const { return share() >= kStragglerShare && others_wait_s > 0; }

Straggler compare_rank(std::span<const PhaseTimes> per_rank, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  LOCKSTEP_CHECK(per_rank.size() >= 2 && index < per_rank.size(), "no rank to compare with others");
  Straggler result;
  result.rank = rank;
  result.times = per_rank[index];
  result.others = medians_without(per_rank, index);
  result.slower_s = compute_s(result.times) - median_without(per_rank, index, compute_s);
  result.others_wait_s = result.others.sync_s - result.times.sync_s;
  result.phase = slowest_phase(result.times, result.others);
  return result;
}

std::optional<Straggler> slowest_rank(std::span<const PhaseTimes> per_rank) {
  if (per_rank.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(
      per_rank.begin(), per_rank.end(),
      [](const PhaseTimes& a, const PhaseTimes& b) { return compute_s(a) < compute_s(b); });
  return compare_rank(per_rank, static_cast<int>(slowest - per_rank.begin()));
}

std::optional<Straggler> find_straggler(std::span<const PhaseTimes> per_rank) {
  const std::optional<Straggler> slowest = slowest_rank(per_rank);
  return slowest && slowest->is_straggler() ? slowest : std::nullopt;
}

std::optional<Straggler> StragglerWatch::add(std::span<const PhaseTimes> per_rank) {
  // The first report of a run has no step before it: all its times are zero.
  if (per_rank.size() < 2 || per_rank.front().step_s <= 0) return std::nullopt;
  if (!std::exchange(warm_, true)) return std::nullopt;
  block_.resize(per_rank.size());
  window_.resize(per_rank.size());
  named_.resize(per_rank.size());
  told_share_.resize(per_rank.size());
  for (std::size_t r = 0; r < per_rank.size(); ++r) add_to(block_[r], per_rank[r]);
  ++block_steps_;
  if (block_steps_ < kBlockSteps || block_.front().step_s < kBlockS) return std::nullopt;
  return close_block();
}

std::optional<Straggler> StragglerWatch::close_block() {
  if (const auto found = find_straggler(means(block_, block_steps_))) {
    ++named_[static_cast<std::size_t>(found->rank)];
  }
  for (std::size_t r = 0; r < block_.size(); ++r) add_to(window_[r], block_[r]);
  window_steps_ += std::exchange(block_steps_, 0);
  std::fill(block_.begin(), block_.end(), PhaseTimes{});
  if (++blocks_ < kBlocks) return std::nullopt;

  const auto found = find_straggler(means(window_, window_steps_));
  const bool steady = found && named_[static_cast<std::size_t>(found->rank)] >= kBlocks - 1;
  std::fill(window_.begin(), window_.end(), PhaseTimes{});
  std::fill(named_.begin(), named_.end(), 0);
  window_steps_ = blocks_ = 0;
  return steady && is_news(*found) ? found : std::nullopt;
}

bool StragglerWatch::is_news(const Straggler& straggler) {
  double& told = told_share_[static_cast<std::size_t>(straggler.rank)];
  if (told > 0 && straggler.share() < 2 * told) return false;
  told = straggler.share();
  return true;
}

}  // namespace lockstep::engine
