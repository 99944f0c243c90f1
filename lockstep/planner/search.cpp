#include "lockstep/planner/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/planner/search_space.h"
#include "lockstep/planner/search_words.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::MemoryPlan;
using parallel::Offload;
using parallel::PipelineSchedule;
using parallel::Recompute;
using parallel::TimePrediction;

/// Times closer than this are one: predictions are off by more (docs/validation.md). Of those the
/// layout with the fewest parts is taken.
constexpr double kAlike = 0.02;
/// Of a device's memory: plans that take more count as having kTightParts more, because memory is
/// off by some per cent too.
constexpr double kTight = 0.95;
constexpr int kTightParts = 2;
/// Layouts of one kind whose memory is looked at before the smallest of them has to do.
constexpr int kMostTries = 200;

/// Layouts of one split are one row of a ranking.
using Split = std::tuple<int, int, int, int, int, int>;

Split split_of(const Layout& layout) {
  return {layout.data, layout.tensor, layout.pipeline, layout.context, layout.expert, layout.zero};
}

/// A choice that layouts differ in: "tensor 4".
struct Choice {
  std::string_view name;
  std::string (*value)(const Layout& layout);
};

constexpr Choice kChoices[] = {
    {"tensor", [](const Layout& layout) { return std::to_string(layout.tensor); }},
    {"pipeline", [](const Layout& layout) { return std::to_string(layout.pipeline); }},
    {"zero", [](const Layout& layout) { return std::to_string(layout.zero); }},
    {"context", [](const Layout& layout) { return std::to_string(layout.context); }},
    {"expert", [](const Layout& layout) { return std::to_string(layout.expert); }},
    {"schedule", [](const Layout& layout) { return std::string(to_text(layout.schedule)); }},
    {"sequence", [](const Layout& layout) { return std::string(layout.sequence ? "on" : "off"); }},
    {"offload-optimizer",
     [](const Layout& layout) { return std::string(to_text(layout.offload_optimizer)); }},
    {"recompute", [](const Layout& layout) { return std::string(to_text(layout.recompute)); }},
};

class Judge {
 public:
  Judge(const ClusterJob& job, const SearchLimits& limits, Reach reach)
      : job_(job), limits_(limits), reach_(reach), machine_(*job.machine) {
    job_.states_only = false;
    job_.deepspeed_rule = false;
    job_.machine.reset();  // memory alone is asked for
    space_ = search_space(job, limits, reach);
    memory_.resize(space_.candidates.size());
  }

  [[nodiscard]] SearchResult answer() {
    SearchResult result;
    result.considered =
        static_cast<std::int64_t>(space_.candidates.size() + space_.too_large.size());
    std::vector<Split> shown;
    while (result.ranked.size() < limits_.keep) {
      const Candidate* next = best_beside(shown);
      if (next == nullptr) break;
      shown.push_back(split_of(next->layout));
      result.ranked.push_back(ranked(next->layout));
    }
    if (result.ranked.size() > 1) {
      std::stable_sort(result.ranked.begin() + 1, result.ranked.end(),
                       [](const auto& a, const auto& b) { return a.time.step_s < b.time.step_s; });
    }
    result.rejected = space_.impossible;
    if (limits_.keep > 1) reject(result);
    return result;
  }

 private:
  [[nodiscard]] std::int64_t device_bytes() const { return machine_.device.memory_bytes; }

  [[nodiscard]] parallel::MemoryPrediction prediction_of(const Layout& layout) {
    job_.layout = layout;
    return plan_cluster(job_).memory;
  }
  [[nodiscard]] MemoryPlan memory_of(const Layout& layout) { return prediction_of(layout).device; }

  [[nodiscard]] std::int64_t bytes_of(const Candidate& candidate) {
    auto& known = memory_[static_cast<std::size_t>(&candidate - space_.candidates.data())];
    if (!known) known = memory_of(candidate.layout).total();
    return *known;
  }

  [[nodiscard]] bool fits(const Candidate& candidate) {
    return bytes_of(candidate) <= device_bytes();
  }

  [[nodiscard]] TimePrediction time_of(const Layout& layout) const {
    TimePrediction time = parallel::predict_time(job_.model, layout, *job_.recipe, machine_,
                                                 time_stack_of(job_, layout));
    (void)add_loading(job_, layout, machine_, time);
    return time;
  }

  [[nodiscard]] RankedLayout ranked(const Layout& layout) {
    const parallel::MemoryPrediction memory = prediction_of(layout);
    RankedLayout row;
    row.layout = layout;
    row.memory = memory.device;
    row.time = time_of(layout);
    row.host_bytes = memory.host_bytes;
    row.nvme_bytes = memory.nvme_bytes;
    row.flags = flags_of(layout);
    row.why = good_because(row, device_bytes());
    return row;
  }

  /// The best whose split is not shown yet; null where none fits.
  [[nodiscard]] const Candidate* best_beside(const std::vector<Split>& shown) {
    const auto is_shown = [&](const Candidate& candidate) {
      return std::find(shown.begin(), shown.end(), split_of(candidate.layout)) != shown.end();
    };
    const Candidate* quickest = nullptr;
    std::vector<const Candidate*> alike;
    for (const Candidate& candidate : space_.candidates) {
      if (quickest != nullptr && candidate.step_s > quickest->step_s * (1 + kAlike)) break;
      if (is_shown(candidate)) continue;
      if (quickest == nullptr && fits(candidate)) quickest = &candidate;
      if (quickest != nullptr) alike.push_back(&candidate);
    }
    return simplest(alike);
  }

  /// Of those that fit.
  [[nodiscard]] const Candidate* simplest(const std::vector<const Candidate*>& alike) {
    const Candidate* best = nullptr;
    int fewest = 0;
    for (const Candidate* candidate : alike) {
      int parts = parts_of(candidate->layout);
      if ((best != nullptr && parts > fewest) || !fits(*candidate)) continue;
      const auto bytes = static_cast<double>(bytes_of(*candidate));
      if (bytes > kTight * static_cast<double>(device_bytes())) parts += kTightParts;
      const bool better =
          best == nullptr || parts < fewest || (parts == fewest && goes_before(*candidate, *best));
      if (!better) continue;
      best = candidate;
      fewest = parts;
    }
    return best;
  }

  static bool goes_before(const Candidate& a, const Candidate& b) {
    if (a.step_s != b.step_s) return a.step_s < b.step_s;
    return flags_of(a.layout) < flags_of(b.layout);
  }

  void reject(SearchResult& result) {
    const RankedLayout* best = result.ranked.empty() ? nullptr : &result.ranked.front();
    for (const Choice& choice : kChoices) reject_values(choice, best, result.rejected);
    if (best == nullptr) {
      reject_all(result);
      return;
    }
    reject_gpipe(*best, result.rejected);
  }

  void reject_values(const Choice& choice, const RankedLayout* best,
                     std::vector<RejectedLayouts>& rejected) {
    const std::string taken = best == nullptr ? "" : choice.value(best->layout);
    std::vector<std::string> values;
    for (const auto* list : {&space_.candidates, &space_.too_large}) {
      for (const Candidate& candidate : *list) {
        std::string value = choice.value(candidate.layout);
        const bool known = std::find(values.begin(), values.end(), value) != values.end();
        if (value != taken && !known) values.push_back(std::move(value));
      }
    }
    std::sort(values.begin(), values.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    if (best == nullptr && values.size() < 2) return;
    for (const std::string& value : values) {
      RejectedLayouts row = reason(choice, value, best);
      row.what = std::string(choice.name) + " " + value;
      rejected.push_back(std::move(row));
    }
  }

  /// Why no layout with this value is the best; `what` is left to the caller.
  [[nodiscard]] RejectedLayouts reason(const Choice& choice, const std::string& value,
                                       const RankedLayout* best) {
    int tries = 0;
    for (const Candidate& candidate : space_.candidates) {
      if (best == nullptr || choice.value(candidate.layout) != value) continue;
      if (++tries > kMostTries) break;
      if (!fits(candidate)) continue;
      return not_better(*best, candidate.layout);
    }
    const Candidate* least = smallest(
        [&](const Candidate& candidate) { return choice.value(candidate.layout) == value; });
    return about_smallest(*least, best);
  }

  /// Of those that `wanted` takes, the one that takes least memory; null without any.
  [[nodiscard]] const Candidate* smallest(
      const std::function<bool(const Candidate&)>& wanted) const {
    const Candidate* least = nullptr;
    for (const auto* list : {&space_.candidates, &space_.too_large}) {
      for (const Candidate& candidate : *list) {
        const bool less = least == nullptr || candidate.least_bytes < least->least_bytes;
        if (less && wanted(candidate)) least = &candidate;
      }
    }
    return least;
  }

  void reject_all(SearchResult& result) {
    static constexpr const char* kReach[] = {"parameters on the device", "parameters on the host",
                                             "states on disks, tensor ranks across hosts"};
    const Candidate* least = smallest([](const Candidate&) { return true; });
    if (least == nullptr) return;
    RejectedLayouts row = about_smallest(*least, nullptr);
    row.what = kReach[static_cast<int>(reach_)];
    result.rejected.push_back(std::move(row));
    result.smallest = least->layout;
  }

  [[nodiscard]] RejectedLayouts not_better(const RankedLayout& best, const Layout& layout) const {
    return {"", slower_than(best.time, time_of(layout)) + " (" + flags_of(layout) + ")",
            Rejection::not_better};
  }

  [[nodiscard]] RejectedLayouts about_smallest(const Candidate& smallest,
                                               const RankedLayout* best) {
    const MemoryPlan memory = memory_of(smallest.layout);
    if (best != nullptr && memory.total() <= device_bytes()) {
      return not_better(*best, smallest.layout);
    }
    return {"", does_not_fit(memory, device_bytes()) + " (" + flags_of(smallest.layout) + ")",
            Rejection::too_large};
  }

  /// Both wait for other stages as long.
  void reject_gpipe(const RankedLayout& best, std::vector<RejectedLayouts>& rejected) {
    if (best.layout.pipeline == 1) return;
    Layout layout = best.layout;
    layout.chunks = 1;
    layout.schedule = PipelineSchedule::gpipe;
    if (best.layout.chunks > 1) layout.cuts.clear();
    const MemoryPlan memory = memory_of(layout);
    const bool large = memory.total() > device_bytes();
    std::string because = "waits as long as 1f1b, and holds every micro-batch: ";
    because += large
                   ? does_not_fit(memory, device_bytes())
                   : format_bytes(memory.total()) + " against " + format_bytes(best.memory.total());
    rejected.push_back({"schedule gpipe", std::move(because),
                        large ? Rejection::too_large : Rejection::not_better});
  }

  ClusterJob job_;
  const SearchLimits& limits_;
  Reach reach_;
  Machine machine_;
  SearchSpace space_;
  std::vector<std::optional<std::int64_t>> memory_;  // of each candidate, once asked
};

/// What the search said later, having gone further, stands for what it said before.
void put_rejections(const std::vector<RejectedLayouts>& later, std::vector<RejectedLayouts>& all) {
  for (const RejectedLayouts& kind : later) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const RejectedLayouts& other) {
      return other.what == kind.what;
    });
    if (known == all.end()) {
      all.push_back(kind);
    } else {
      *known = kind;
    }
  }
}

/// What the best layout has is not rejected, even where it was before the search went further.
void drop_taken(SearchResult& result) {
  const Layout& taken = result.ranked.front().layout;
  for (const Choice& choice : kChoices) {
    const std::string what = std::string(choice.name) + " " + choice.value(taken);
    std::erase_if(result.rejected, [&](const RejectedLayouts& row) { return row.what == what; });
  }
}

SearchResult search_as_far_as_needed(const ClusterJob& job, const SearchLimits& limits) {
  SearchResult result;
  for (const Reach reach : {Reach::near, Reach::host, Reach::far}) {
    SearchResult further = Judge(job, limits, reach).answer();
    result.considered += further.considered;
    result.ranked = std::move(further.ranked);
    if (further.smallest) result.smallest = further.smallest;
    put_rejections(further.rejected, result.rejected);
    if (!result.ranked.empty()) {
      result.smallest.reset();
      drop_taken(result);
      break;
    }
  }
  return result;
}

/// No layout trains faster than every device at its peak.
double least_seconds(const ClusterJob& job, std::int64_t devices) {
  const DeviceModel& device = job.machine->device;
  const double peak = job.recipe->compute < 4 ? device.half_flops_per_s : device.single_flops_per_s;
  return samples_of_training(job) * job.model.model_flops_per_sample() /
         (static_cast<double>(devices) * peak);
}

/// Seconds of the whole training with so many devices; infinity where it does not fit.
double training_seconds(ClusterJob job, SearchLimits limits, std::int64_t devices) {
  limits.devices = devices;
  limits.keep = 1;
  job.machine->devices = devices;
  const SearchResult result = search_as_far_as_needed(job, limits);
  if (result.ranked.empty()) return std::numeric_limits<double>::infinity();
  const double steps = samples_of_training(job) / static_cast<double>(limits.global_batch);
  const double ideal_s = steps * result.ranked.front().time.step_s;
  if (!limits.failures) return ideal_s;
  GoodputQuestion question = *limits.failures;
  question.units = devices;
  return expected_s(goodput(question), ideal_s);
}

DevicesWithin fewest_within(const ClusterJob& job, const SearchLimits& limits) {
  DevicesWithin within;
  within.train_s = std::numeric_limits<double>::infinity();
  for (std::int64_t devices = 1; devices <= limits.devices; ++devices) {
    if (limits.devices % devices != 0) continue;
    const bool all = devices == limits.devices;
    if (!all && least_seconds(job, devices) > limits.need_within_s) continue;
    const double seconds = training_seconds(job, limits, devices);
    within.train_s = std::min(within.train_s, seconds);
    if (seconds > limits.need_within_s) continue;
    within.devices = devices;
    within.train_s = seconds;
    within.sentence = counted(devices, "device") + " train " + trained_text(job) + " in " +
                      format_duration(seconds) + ", within " +
                      format_duration(limits.need_within_s);
    return within;
  }
  within.sentence = "none of 1 to " + counted(limits.devices, "device") + " trains " +
                    trained_text(job) + " within " + format_duration(limits.need_within_s) + ": ";
  within.sentence += within.train_s < std::numeric_limits<double>::infinity()
                         ? "the shortest is " + format_duration(within.train_s)
                         : "no layout fits";
  return within;
}

}  // namespace

SearchResult search_layouts(const ClusterJob& job, const SearchLimits& limits) {
  SearchLimits all = limits;
  ClusterJob here = job;
  if (all.devices == 0) all.devices = job.machine->devices;
  if (all.global_batch == 0) all.global_batch = job.layout.global_batch();
  here.machine->devices = all.devices;
  SearchResult result = search_as_far_as_needed(here, all);
  if (all.need_within_s > 0 && job.tokens > 0) result.within = fewest_within(here, all);
  return result;
}

}  // namespace lockstep::planner
