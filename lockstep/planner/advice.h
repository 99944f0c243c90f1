// Whether to distribute a training at all, and what else to do about it: one rule a row, for plans
// and for docs/guides/choosing.md. Pure functions.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/planner/cluster_plan.h"

namespace lockstep::planner {

/// What a plan cannot know of a training; 0 = not said.
struct TrainingFacts {
  double need_within_s = 0;
  double data_bytes = 0;            // of the data set
  double loader_samples_per_s = 0;  // that one host reads and prepares
  int cores_per_host = 0;
  bool control_flow = false;    // forward takes another way for other data
  double small_batch = 0;       // global batch that small_batch_rate was found good for
  double small_batch_rate = 0;  // learning rate
  bool searched = false;        // the layout is the best of a search: no rule knows a better one
};

/// Topic of the rules that choose a layout.
inline constexpr std::string_view kKindOfParallelism = "Which kind of parallelism";

struct Distribution {
  bool needed = false;
  double expected_speedup = 0;  // over one device that could hold the model; 0 = not predicted
  std::vector<std::string> reasons{};
};

/// Distribute where two of three hold: the states and activations are over one device's memory, the
/// result is needed in a third of the time or less, links are fast enough; or where they are far
/// over any one device. Never where too little is gained (least_speedup) and one device can do it.
[[nodiscard]] Distribution distribute(const ClusterJob& job, const TrainingFacts& facts = {});

/// 2 on 8 devices and more, less on fewer: below it, distributing is not worth the trouble.
[[nodiscard]] double least_speedup(std::int64_t devices);

/// Tokens of a step from which on more of them help little (McCandlish et al. 2018,
/// arXiv:1812.06162), by the loss that a transformer of so many parameters reaches on so many
/// tokens (Kaplan et al. 2020, arXiv:2001.08361, equations 1.4 and 1.5).
[[nodiscard]] double critical_batch_tokens(double parameters, double data_tokens);

struct Said {
  std::string say;
  std::string because;  // with this job's numbers
};

struct GivenAdvice {
  std::string say;
  std::string because;
  std::string source;  // a paper or a page
};

/// A job with what rules ask of it.
struct Situation {
  const ClusterJob& job;
  const TrainingFacts& facts;
  ClusterPlan plan;
  ClusterPlan alone;       // on one device
  double over_memory = 0;  // alone / memory of a device; 0 = unknown
  double exchange_s = 0;   // of all gradients over the slowest link; 0 = one device
  double compute_s = 0;    // forward and backward of a step; 0 = unknown
  [[nodiscard]] bool crosses_hosts() const;
  /// Of the slowest link that gradients take.
  [[nodiscard]] const LinkModel& link() const;
};

[[nodiscard]] Situation situation_of(const ClusterJob& job, const TrainingFacts& facts);

/// One row. A rule without `apply` stands in the guide alone.
struct AdviceRule {
  std::string_view topic;  // of the guide's table
  std::string_view when;
  std::string_view act;
  std::string_view because;
  std::string_view source;
  std::optional<Said> (*apply)(const Situation& situation) = nullptr;
};

[[nodiscard]] std::span<const AdviceRule> advice_rules();

/// What the rules say of this job, in their order.
[[nodiscard]] std::vector<GivenAdvice> advice(const ClusterJob& job,
                                              const TrainingFacts& facts = {});

/// docs/guides/choosing.md.
[[nodiscard]] std::string choosing_markdown();

}  // namespace lockstep::planner
