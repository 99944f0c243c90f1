#include "lockstep/planner/host_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/planner/planner.h"

namespace lockstep::planner {
namespace {

using parallel::ParallelPlan;

/// Times closer than this are one: predictions are off by more.
constexpr double kAlike = 0.02;
constexpr int kMostRanks = 256;                // that are looked at
constexpr std::int64_t kSmallMicroBatch = 16;  // up to here every divisor is looked at

bool is_power_of_two(std::int64_t number) { return (number & (number - 1)) == 0; }

/// Divisors of a rank's samples, from the largest down.
std::vector<std::int64_t> micro_batches(std::int64_t samples) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = samples; size >= 1;
       size = size > 1 ? samples / (samples / size + 1) : 0) {
    const bool usual = size <= kSmallMicroBatch || is_power_of_two(size) || size == samples;
    if (samples % size == 0 && usual) sizes.push_back(size);
  }
  return sizes;
}

std::string ranks_text(const ParallelPlan& plan) {
  return "ranks " + std::to_string(plan.batch.data_ranks);
}

std::string micro_text(const ParallelPlan& plan) {
  return "micro_batch " + std::to_string(plan.batch.micro_batch);
}

std::string flags_of(const ParallelPlan& plan) {
  return "--nproc-per-node " + std::to_string(plan.batch.data_ranks) +
         " --set batch.micro_batch=" + std::to_string(plan.batch.micro_batch) +
         " --set batch.accumulation=" + std::to_string(plan.batch.accumulation);
}

class HostJudge {
 public:
  HostJudge(const config::RunConfig& config, const Host& host, std::int64_t global_batch,
            std::int64_t data_bytes)
      : config_(config), host_(host), global_batch_(global_batch), data_bytes_(data_bytes) {
    config_.parallel.data.reset();
    config_.batch = {};
    config_.batch.global_batch = global_batch;
  }

  [[nodiscard]] HostSearch answer() {
    const int threads = std::max(1, config_.run.threads);
    const int most = std::clamp(host_.cores / threads, 1, kMostRanks);
    for (int ranks = 1; ranks <= most; ++ranks) look_at(ranks);
    result_.considered = static_cast<std::int64_t>(plans_.size());
    rank();
    reject();
    return std::move(result_);
  }

 private:
  void refuse(std::string what, std::string because, Rejection kind) {
    for (const RejectedLayouts& known : result_.rejected) {
      if (known.what == what) return;
    }
    result_.rejected.push_back({std::move(what), std::move(because), kind});
  }

  void look_at(int ranks) {
    if (global_batch_ % ranks != 0) {
      refuse("ranks " + std::to_string(ranks),
             std::to_string(ranks) + " ranks do not divide the batch of " +
                 std::to_string(global_batch_),
             Rejection::impossible);
      return;
    }
    std::string reason;
    const std::size_t before = plans_.size();
    for (const std::int64_t micro : micro_batches(global_batch_ / ranks)) {
      config_.batch.micro_batch = micro;
      try {
        plans_.push_back(make_plan(config_, host_, ranks, data_bytes_));
      } catch (const UsageError& error) {
        reason = error.problems().front().what;
      }
    }
    if (plans_.size() == before) {
      refuse("ranks " + std::to_string(ranks), reason, Rejection::impossible);
    }
  }

  /// As batch.micro_batch = "auto" has it; 0 = not known.
  [[nodiscard]] std::int64_t limit_of(const ParallelPlan& plan) const {
    return memory_of_rank(host_, plan.batch.data_ranks);
  }
  [[nodiscard]] bool fits(const ParallelPlan& plan) const {
    return host_.memory_bytes == 0 || plan.memory.total() <= limit_of(plan);
  }

  /// Fewer parts and larger micro-batches first where times are alike.
  static bool simpler(const ParallelPlan& a, const ParallelPlan& b) {
    if (a.batch.data_ranks != b.batch.data_ranks) return a.batch.data_ranks < b.batch.data_ranks;
    return a.batch.micro_batch > b.batch.micro_batch;
  }

  /// The best of those that `wanted` takes and that fit; null without any.
  template <typename Wanted>
  [[nodiscard]] const ParallelPlan* best_of(const Wanted& wanted) const {
    const ParallelPlan* quickest = nullptr;
    for (const ParallelPlan& plan : plans_) {
      if (!wanted(plan) || !fits(plan)) continue;
      if (quickest == nullptr || plan.step_s < quickest->step_s) quickest = &plan;
    }
    const ParallelPlan* best = quickest;
    for (const ParallelPlan& plan : plans_) {
      if (quickest == nullptr || !wanted(plan) || !fits(plan)) continue;
      const bool alike = plan.step_s <= quickest->step_s * (1 + kAlike);
      if (alike && simpler(plan, *best)) best = &plan;
    }
    return best;
  }

  void rank() {
    const ParallelPlan* first = best_of([](const ParallelPlan&) { return true; });
    if (first == nullptr) return;
    std::map<int, const ParallelPlan*> by_ranks;
    for (const ParallelPlan& plan : plans_) {
      const int ranks = plan.batch.data_ranks;
      const auto [row, is_new] = by_ranks.try_emplace(ranks, nullptr);
      if (!is_new) continue;
      row->second =
          best_of([&](const ParallelPlan& other) { return other.batch.data_ranks == ranks; });
    }
    add(*first, *first);
    by_ranks.erase(first->batch.data_ranks);
    for (const auto& [ranks, plan] : by_ranks) {
      if (plan != nullptr) add(*plan, *first);
    }
    std::stable_sort(
        result_.ranked.begin() + 1, result_.ranked.end(),
        [](const HostLayout& a, const HostLayout& b) { return a.plan.step_s < b.plan.step_s; });
  }

  void add(const ParallelPlan& plan, const ParallelPlan& best) {
    const std::string memory = "takes " + format_bytes(plan.memory.total()) + " of " +
                               format_bytes(limit_of(plan)) + " a rank";
    std::string why =
        &plan == &best ? format_duration(plan.step_s) + " a step" : slower(plan, best);
    result_.ranked.push_back({plan, flags_of(plan), std::move(why) + "; " + memory});
  }

  static std::string slower(const ParallelPlan& plan, const ParallelPlan& best) {
    const double more = plan.step_s / best.step_s - 1;
    std::string text =
        format_duration(plan.step_s) + " a step against " + format_duration(best.step_s);
    if (more < kAlike) {
      return text + ": closer than predictions are, and " +
             (plan.batch.data_ranks > best.batch.data_ranks ? "more ranks" : "smaller pieces");
    }
    return text + ", " + format_percent(more) + " more";
  }

  std::string too_large(const ParallelPlan& plan) const {
    return "does not fit: " + format_bytes(plan.memory.total()) + " of " +
           format_bytes(limit_of(plan)) + " a rank";
  }

  /// The best of each value of each choice that the first layout does not have.
  void reject() {
    const ParallelPlan* first = result_.ranked.empty() ? nullptr : &result_.ranked.front().plan;
    for (const auto text : {ranks_text, micro_text}) {
      const std::string taken = first == nullptr ? "" : text(*first);
      for (const ParallelPlan& plan : plans_) {
        const std::string what = text(plan);
        if (what == taken) continue;
        const auto same = [&](const ParallelPlan& other) { return text(other) == what; };
        if (const ParallelPlan* best = best_of(same)) {
          refuse(what, slower(*best, *first) + " (" + flags_of(*best) + ")", Rejection::not_better);
        } else {
          refuse(what, too_large(plan) + " (" + flags_of(plan) + ")", Rejection::too_large);
        }
      }
    }
  }

  config::RunConfig config_;
  const Host& host_;
  std::int64_t global_batch_;
  std::int64_t data_bytes_;
  std::vector<ParallelPlan> plans_;
  HostSearch result_;
};

}  // namespace

HostSearch search_host(const config::RunConfig& config, const Host& host, std::int64_t global_batch,
                       std::int64_t data_bytes) {
  return HostJudge(config, host, global_batch, data_bytes).answer();
}

}  // namespace lockstep::planner
