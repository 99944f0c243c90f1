#include "lockstep/planner/batch_cuts.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/planner/planner.h"

namespace lockstep::planner {
namespace {

constexpr double kUsableMemory = 0.9;  // of what is free: the plan may be off by as much
constexpr double kClearlyFaster = 1.02;
constexpr double kPredictedAlike = 1.1;  // times that are off by as much: probes find the finer cut
constexpr std::size_t kMostThatFit = 4;  // probes of cuts that fit: each is a step's work and less

/// All divisors of `number` up to `largest`, from the largest down.
std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t largest) {
  std::vector<std::int64_t> found;
  for (std::int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    for (const std::int64_t divisor : {small, number / small}) {
      if (divisor <= largest) found.push_back(divisor);
    }
  }
  std::sort(found.rbegin(), found.rend());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool fits(const parallel::ParallelPlan& plan, std::int64_t limit_bytes) {
  return limit_bytes == 0 || plan.memory.total() <= limit_bytes;
}

/// \param sizes from the largest down, not empty.
std::vector<std::int64_t> halving(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> ladder{sizes.front()};
  for (const std::int64_t size : sizes) {
    if (size <= ladder.back() / 2) ladder.push_back(size);
  }
  return ladder;
}

}  // namespace

std::int64_t memory_of_rank(const Host& host, int ranks) {
  std::int64_t usable = host.memory_bytes;
  if (host.memory_free_bytes > 0) usable = std::min(usable, host.memory_free_bytes);
  return static_cast<std::int64_t>(kUsableMemory * static_cast<double>(usable) / ranks);
}

config::RunConfig with_found_batch(config::RunConfig config, const parallel::ParallelPlan& plan) {
  if (!config.batch.finds_micro_batch) return config;
  config.batch.finds_micro_batch = false;
  config.batch.micro_batch = plan.batch.micro_batch;
  return config;
}

BatchCuts batch_cuts(const config::RunConfig& config, const Host& host, int world_size,
                     std::int64_t data_bytes, std::int64_t given) {
  const std::int64_t of_a_rank = config.batch.global_batch.value_or(0) / world_size;
  LOCKSTEP_CHECK(of_a_rank >= 1 && (given == 0 || of_a_rank % given == 0),
                 "a batch to be cut is not settled");
  const auto cut_into = [&](std::int64_t micro_batch) {
    parallel::ParallelPlan plan;
    plan.batch.micro_batch = micro_batch;
    return make_plan(with_found_batch(config, plan), host, world_size, data_bytes);
  };
  BatchCuts result;
  result.memory_limit_bytes = memory_of_rank(host, world_size);
  std::vector<std::int64_t> sizes = divisors(of_a_rank, given == 0 ? of_a_rank : given);
  if (given == 0) {
    const auto fitting = std::find_if(sizes.begin(), sizes.end(), [&](std::int64_t size) {
      return fits(cut_into(size), result.memory_limit_bytes);
    });
    const auto first = std::min(fitting, sizes.end() - 1);
    if (first != sizes.begin()) result.too_large = cut_into(*(first - 1));
    sizes.erase(sizes.begin(), first);
  }
  for (const std::int64_t size : halving(sizes)) result.cuts.push_back(cut_into(size));
  if (given != 0) return result;
  double least_s = result.cuts.front().step_s;
  for (const parallel::ParallelPlan& cut : result.cuts) least_s = std::min(least_s, cut.step_s);
  const auto coarsest = std::find_if(
      result.cuts.begin(), result.cuts.end(),
      [&](const parallel::ParallelPlan& cut) { return cut.step_s <= kPredictedAlike * least_s; });
  result.cuts.erase(result.cuts.begin(), coarsest);
  return result;
}

std::optional<std::size_t> next_probe(std::span<const ProbedCut> probed, std::size_t cuts) {
  if (probed.empty()) return 0;
  const ProbedCut& last = probed.back();
  if (last.cut + 1 >= cuts) return std::nullopt;
  const auto fitting = static_cast<std::size_t>(
      std::count_if(probed.begin(), probed.end(), [](const ProbedCut& one) { return one.fits; }));
  // A finer cut that did not fit where a coarser one did: what is free has changed meanwhile.
  const bool goes_on = last.fits ? fitting < 2 || &best_probe(probed) == &last : fitting == 0;
  if (!goes_on || fitting >= kMostThatFit) return std::nullopt;
  return last.cut + 1;
}

const ProbedCut& best_probe(std::span<const ProbedCut> probed) {
  LOCKSTEP_CHECK(!probed.empty(), "nothing was tried");
  const ProbedCut* best = nullptr;
  for (const ProbedCut& one : probed) {  // finer and finer
    const bool is_better =
        best == nullptr || one.samples_per_s > kClearlyFaster * best->samples_per_s;
    if (one.fits && is_better) best = &one;
  }
  return best == nullptr ? probed.back() : *best;
}

}  // namespace lockstep::planner
