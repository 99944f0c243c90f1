#include "lockstep/engine/gradient_check.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/records/purpose.h"

namespace lockstep::engine {
namespace {

using parallel::CheckPart;
using parallel::CheckSplit;

constexpr double kLongestPart_s = 20;  // well below the deadline of a collective

/// Leaves that run together, part by part.
struct Cut {
  std::vector<std::vector<std::int64_t>> parts;
  std::string reason;
};

/// Consecutive leaves, `together` of them at once.
Cut cut_evenly(std::int64_t leaves, std::int64_t together, const std::string& reason) {
  Cut cut{{}, together < leaves ? reason : ""};
  for (std::int64_t first = 0; first < leaves; first += together) {
    cut.parts.emplace_back();
    for (std::int64_t leaf = first; leaf < std::min(first + together, leaves); ++leaf) {
      cut.parts.back().push_back(leaf);
    }
  }
  return cut;
}

Cut cut_over_ranks(std::int64_t leaves, std::int64_t of_a_rank) {
  Cut cut{{}, of_a_rank > 1 ? "statistics of the n-th micro-batches of all ranks" : ""};
  for (std::int64_t i = 0; i < of_a_rank; ++i) {
    cut.parts.emplace_back();
    for (std::int64_t leaf = i; leaf < leaves; leaf += of_a_rank) {
      cut.parts.back().push_back(leaf);
    }
  }
  return cut;
}

Cut cut_batch(CheckSplit split, const CheckedStep& step) {
  const std::int64_t leaves = step.leaves.leaves;
  switch (split) {
    case CheckSplit::ranks:
      return cut_over_ranks(leaves, step.leaves.count);
    case CheckSplit::micro_batches:
      return cut_evenly(leaves, 1, "dropout or batch statistics");
    case CheckSplit::whole:
      break;
  }
  const double in_time = kLongestPart_s / std::max(step.leaf_s, 1e-9);
  if (in_time >= static_cast<double>(leaves)) return cut_evenly(leaves, leaves, "");
  return cut_evenly(leaves, std::max<std::int64_t>(1, static_cast<std::int64_t>(in_time)), "time");
}

/// What rank 0 tells the others.
enum class Word : std::uint8_t { working, over };

Word hear(comm::Group& group, Word own) {
  if (group.size() == 1) return own;
  const comm::Purpose purpose("the check of the gradients");
  const at::Tensor word = at::full({1}, static_cast<std::int64_t>(own), at::kLong);
  group.broadcast(word, 0)->wait();
  return static_cast<Word>(word.item<std::int64_t>());
}

/// Makes the batches of parts one after the other, each announced to the ranks that wait.
class PartMaker {
 public:
  PartMaker(const GradientCheckSetting& setting, const CheckedStep& step,
            const std::function<bool()>& stops_now)
      : setting_(setting),
        stops_now_(stops_now),
        leaves_(step.leaves.leaves),
        ids_(setting.sampler.step_ids(step.position)),
        augment_key_(data::augment_key(static_cast<std::uint64_t>(setting.config.run.seed),
                                       step.position.epoch)) {}

  /// Of the gradients that were summed to those of these parts.
  parallel::GradientDifference compare(const Cut& cut) {
    std::size_t made = 0;
    return setting_.session.check_gradients([&]() -> std::optional<CheckPart> {
      while (made < cut.parts.size() && !gave_up_) {
        if (std::exchange(has_begun_, true)) (void)hear(setting_.group, Word::working);
        gave_up_ = stops_now_();
        const std::vector<std::int64_t>& leaves = cut.parts[made++];
        const std::vector<std::int64_t> ids = ids_of(leaves);
        if (gave_up_ || ids.empty()) continue;
        return CheckPart{setting_.data.collate(ids, augment_key_), leaves.front()};
      }
      return std::nullopt;
    });
  }

  [[nodiscard]] bool gave_up() const { return gave_up_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> ids_of(const std::vector<std::int64_t>& leaves) const {
    std::vector<std::int64_t> ids;
    for (const std::int64_t leaf : leaves) {
      const auto part = data::part_of(ids_, leaf, leaves_);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }

  const GradientCheckSetting& setting_;
  const std::function<bool()>& stops_now_;
  std::int64_t leaves_;
  std::vector<std::int64_t> ids_;  // of the global batch
  std::uint64_t augment_key_;
  bool has_begun_ = false;
  bool gave_up_ = false;
};

/// On rank 0: undivided where that can be, and when it differs the micro-batches for themselves.
GradientCheckReport compare_all(const GradientCheckSetting& setting, const CheckedStep& step,
                                PartMaker& maker) {
  const CheckTolerance tolerance = check_tolerance(setting.config);
  const CheckSplit split = setting.session.check_split();
  const Cut cut = cut_batch(split, step);
  const parallel::GradientDifference first = maker.compare(cut);
  GradientCheckReport report;
  report.worst_relative = first.worst_relative;
  report.parameter = first.parameter;
  report.tolerance =
      split == CheckSplit::ranks && tolerance.sums > 0 ? tolerance.activations : tolerance.sums;
  report.parts = static_cast<std::int64_t>(cut.parts.size());
  report.cut_for = cut.reason;
  report.passed = tolerance.sums == 0 || report.worst_relative <= report.tolerance;
  if (report.passed || split != CheckSplit::whole || report.parts == step.leaves.leaves) {
    return report;
  }
  report.micro_batches_relative =
      maker.compare(cut_evenly(step.leaves.leaves, 1, "")).worst_relative;
  report.passed = *report.micro_batches_relative <= tolerance.sums &&
                  report.worst_relative <= tolerance.activations;
  return report;
}

}  // namespace

CheckTolerance check_tolerance(const config::RunConfig& config) {
  if (config.parallel.gradient_compression != config::Compression::none) return {};
  constexpr auto kSums = std::to_array<double>({1e-4, 3e-2, 5e-3});       // fp32, bf16, fp16
  constexpr auto kActivations = std::to_array<double>({5e-2, 0.5, 0.1});  // likewise
  const auto wire = static_cast<std::size_t>(config.precision.reduce);
  const auto compute = static_cast<std::size_t>(config.precision.compute);
  return {kSums.at(wire), std::max(kActivations.at(wire), kActivations.at(compute))};
}

std::optional<GradientCheckReport> check_gradients(const GradientCheckSetting& setting,
                                                   const CheckedStep& step,
                                                   const std::function<bool()>& stops_now) {
  if (setting.group.rank() != 0) {
    while (hear(setting.group, Word::over) == Word::working) {
    }
    return std::nullopt;
  }
  const auto begin = std::chrono::steady_clock::now();
  PartMaker maker(setting, step, stops_now);
  GradientCheckReport report = compare_all(setting, step, maker);
  (void)hear(setting.group, Word::over);
  if (maker.gave_up()) return std::nullopt;
  const auto end = std::chrono::steady_clock::now();
  report.check_s = std::chrono::duration<double>(end - begin).count();
  return report;
}

}  // namespace lockstep::engine
