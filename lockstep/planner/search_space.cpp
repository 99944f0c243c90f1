#include "lockstep/planner/search_space.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/parallel/cost/stage_blocks.h"
#include "lockstep/parallel/plan/in_flight.h"
#include "lockstep/parallel/plan/pipeline_pieces.h"
#include "lockstep/planner/pipeline_cuts.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::PipelineSchedule;
using parallel::Recompute;

/// Below so many tokens a rank, sharing a sample saves nothing that smaller micro-batches do not.
constexpr std::int64_t kLeastTokensOfRank = 4096;
constexpr std::int64_t kSmallMicroBatch = 16;  // up to here every divisor is tried
/// Cuts that gain less than this over even ones are not worth their length.
constexpr double kWorthCutting = 0.005;
/// Of a device's memory: what a pipeline may fill before stages 2 and 3 are looked at.
constexpr double kTight = 0.7;

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> small;
  std::vector<std::int64_t> large;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    small.push_back(d);
    if (d * d != number) large.push_back(number / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class Enumeration {
 public:
  Enumeration(const ClusterJob& job, const SearchLimits& limits, Reach reach)
      : job_(job),
        limits_(limits),
        reach_(reach),
        runs_(parallel::block_runs(job.model)),
        layers_(parallel::layer_count(job.model)) {
    for (const parallel::BlockRun& run : runs_) {
      const double count = static_cast<double>(run.count);
      dense_ += count * (run.whole + run.split);
      experts_ += count * run.experts;
    }
    if (job.given_parameters > 0) {
      dense_ = job.given_parameters;
      experts_ = 0;
    }
  }

  [[nodiscard]] SearchSpace all() && {
    for (const int context : contexts()) {
      for (const int tensor : tensors()) {
        Layout layout;
        layout.flash_attention = job_.layout.flash_attention;
        layout.context = context;
        layout.tensor = tensor;
        if (limits_.devices % (std::int64_t{1} * context * tensor) == 0) add_pipelines(layout);
      }
    }
    sort_candidates();
    return std::move(space_);
  }

 private:
  void refuse(std::string what, std::string because) {
    for (const RejectedLayouts& known : space_.impossible) {
      if (known.what == what) return;
    }
    space_.impossible.push_back({std::move(what), std::move(because)});
  }

  /// Whether that degree alone can be; why not is kept.
  bool possible(const Layout& layout, std::string what) {
    const auto problems = parallel::check_layout({layout, &job_.model, &job_.architecture, 0, 0});
    if (problems.empty()) return true;
    refuse(std::move(what), problems.front().what);
    return false;
  }

  std::vector<int> contexts() {
    std::vector<int> found{1};
    if (!job_.model.counts_tokens || limits_.fixed.data_ranks_alone) return found;
    for (int context = 2; context <= limits_.devices; context *= 2) {
      if (job_.model.tokens_per_sample / context < kLeastTokensOfRank) break;
      Layout layout;
      layout.context = context;
      if (possible(layout, "context " + std::to_string(context))) found.push_back(context);
    }
    return found;
  }

  std::vector<int> tensors() {
    const std::int64_t host =
        std::min<std::int64_t>(limits_.devices, job_.machine->devices_per_host);
    const std::int64_t most = reach_ == Reach::far ? limits_.devices : host;
    std::vector<int> found{1};
    if (limits_.fixed.data_ranks_alone) return found;
    for (std::int64_t tensor = 2; tensor <= most; ++tensor) {
      const bool of_host = tensor <= host && host % tensor == 0;
      if (!of_host && !is_power_of_two(tensor)) continue;
      Layout layout;
      layout.tensor = static_cast<int>(tensor);
      if (possible(layout, "tensor " + std::to_string(tensor))) {
        found.push_back(static_cast<int>(tensor));
      }
    }
    return found;
  }

  void add_pipelines(Layout layout) {
    const std::int64_t rest = limits_.devices / (std::int64_t{1} * layout.context * layout.tensor);
    for (const std::int64_t pipeline : divisors_of(rest)) {
      if (limits_.fixed.data_ranks_alone && pipeline > 1) return;
      if (pipeline > std::max<std::int64_t>(1, layers_)) {
        refuse("pipeline " + std::to_string(pipeline) + " or more",
               "there are " + std::to_string(layers_) + " layers to share");
        return;
      }
      layout.pipeline = static_cast<int>(pipeline);
      layout.data = static_cast<int>(rest / pipeline);
      if (parallel::table_parameters(job_.model) > 0) layout.tables = layout.data;
      if (limits_.global_batch % layout.data != 0) {
        refuse("data " + std::to_string(layout.data), std::to_string(layout.data) +
                                                          " ranks do not divide the batch of " +
                                                          std::to_string(limits_.global_batch));
        continue;
      }
      add_experts(layout);
    }
  }

  void add_experts(Layout layout) {
    const std::int64_t experts = std::max<std::int64_t>(1, job_.architecture.experts.experts);
    for (const std::int64_t expert : divisors_of(experts)) {
      if (layout.replicas() % expert != 0) continue;
      if (limits_.fixed.data_ranks_alone && expert > 1) continue;
      layout.expert = static_cast<int>(expert);
      layout.sequence = false;
      add_batches(layout);
      const std::int64_t tokens = job_.model.tokens_per_sample / layout.context;
      layout.sequence = true;
      if (layout.tensor > 1 && job_.model.counts_tokens && tokens % layout.tensor == 0) {
        add_batches(layout);
      }
    }
  }

  void add_batches(Layout layout) {
    const std::int64_t samples = limits_.global_batch / layout.data;
    for (const std::int64_t micro : divisors_of(samples)) {
      const bool usual = micro <= kSmallMicroBatch || is_power_of_two(micro) || micro == samples;
      if (!usual && !limits_.fixed.micro_batch && !limits_.fixed.accumulation) continue;
      layout.micro_batch = micro;
      layout.accumulation = samples / micro;
      if (free_or(limits_.fixed.micro_batch, micro) &&
          free_or(limits_.fixed.accumulation, layout.accumulation)) {
        add_recomputation(layout);
      }
    }
  }

  void add_recomputation(Layout layout) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (recompute == Recompute::full && layers_ == 0) continue;
      const bool scores = !layout.flash_attention && job_.model.attention_flops_per_sample() > 0;
      if (recompute == Recompute::selective && !scores) continue;
      layout.recompute = recompute;
      add_schedules(layout);
    }
  }

  void add_schedules(Layout layout) {
    layout.schedule = PipelineSchedule::none;
    if (layout.pipeline == 1) {
      add_sharing(layout);
      return;
    }
    Layout plain = layout;
    plain.schedule = PipelineSchedule::one_f_one_b;
    plain.cuts = cuts_of(plain);
    add_sharing(plain);
    layout.schedule = PipelineSchedule::interleaved;
    if (layers_ % layout.pipeline != 0 || layout.accumulation % layout.pipeline != 0) return;
    for (const std::int64_t chunks : divisors_of(layers_ / layout.pipeline)) {
      layout.chunks = static_cast<int>(chunks);
      if (chunks > 1) add_sharing(layout);
    }
  }

  template <typename Value>
  static bool free_or(const std::optional<Value>& fixed, Value value) {
    return !fixed || *fixed == value;
  }

  /// Every stage and place that is not fixed otherwise; what is free goes as far as the reach.
  void add_free_sharing(Layout layout) {
    const FixedParts& fixed = limits_.fixed;
    for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
      if (!free_or(fixed.zero, layout.zero)) continue;
      layout.secondary_shard = layout.zero == 3 ? fixed.secondary_shard : 0;
      if (layout.secondary_shard > 0 && layout.replicas() % layout.secondary_shard != 0) continue;
      for (const Offload optimizer : {Offload::none, Offload::cpu, Offload::nvme}) {
        const bool near = optimizer == Offload::nvme ? reach_ == Reach::far : layout.zero > 0;
        const bool free = optimizer == Offload::none || near;
        if (!(fixed.offload_optimizer ? *fixed.offload_optimizer == optimizer : free)) continue;
        layout.offload_optimizer = optimizer;
        add_free_parameters(layout);
      }
    }
  }

  void add_free_parameters(Layout layout) {
    const std::optional<Offload>& fixed = limits_.fixed.offload_parameters;
    for (const Offload parameters : {Offload::none, Offload::cpu, Offload::nvme}) {
      const bool reached =
          parameters == Offload::nvme ? reach_ == Reach::far : reach_ != Reach::near;
      const bool free = parameters == Offload::none || reached;
      if (!(fixed ? *fixed == parameters : free)) continue;
      layout.offload_parameters = parameters;
      const bool third = parameters != Offload::none || layout.offload_optimizer == Offload::nvme;
      if (layout.zero == 3 || !third) add(layout);
    }
  }

  void add_sharing(Layout layout) {
    if (limits_.fixed.data_ranks_alone) {
      add_free_sharing(layout);
      return;
    }
    if (reach_ != Reach::near) {
      add_offloaded_parameters(layout);
      return;
    }
    const int most = layout.replicas() > 1 ? 3 : 0;
    for (layout.zero = 0; layout.zero <= most; ++layout.zero) {
      if (layout.pipeline == 1 || layout.zero < 2 || is_tight(layout)) add(layout);
    }
    // Gradients leave the device too from stage 2 on, with a single rank as well.
    layout.offload_optimizer = Offload::cpu;
    if (layout.pipeline > 1) {
      layout.zero = 1;
      add(layout);
      return;
    }
    for (layout.zero = 2; layout.zero <= std::max(2, most); ++layout.zero) add(layout);
  }

  /// Stages 2 and 3 reduce and gather for each micro-batch of a pipeline: of use where the stage
  /// before leaves little room.
  bool is_tight(const Layout& layout) {
    Candidate before{layout};
    --before.layout.zero;
    put_least_bytes(before);
    return before.least_bytes > kTight * static_cast<double>(job_.machine->device.memory_bytes);
  }

  /// Of stage 3 alone; a pipeline offloads the optimizer instead, because each micro-batch would
  /// bring the parameters back.
  void add_offloaded_parameters(Layout layout) {
    const Offload where = reach_ == Reach::far ? Offload::nvme : Offload::cpu;
    layout.offload_optimizer = layout.pipeline > 1 ? Offload::cpu : where;
    layout.offload_parameters = layout.pipeline > 1 ? Offload::none : where;
    layout.zero = layout.pipeline > 1 ? 1 : 3;
    add(layout);
  }

  void add(const Layout& layout) {
    Candidate candidate{layout};
    put_least_bytes(candidate);
    if (candidate.least_bytes > static_cast<double>(job_.machine->device.memory_bytes)) {
      space_.too_large.push_back(std::move(candidate));
      return;
    }
    candidate.step_s = parallel::time_parts(runs_, layout, *job_.recipe, *job_.machine,
                                            time_stack_of(job_, layout), {})
                           .step_s;
    space_.candidates.push_back(std::move(candidate));
  }

  /// What the first stage of equal ones would have: the fullest has no less.
  void put_least_bytes(Candidate& candidate) {
    const Layout& layout = candidate.layout;
    const double ranks = static_cast<double>(layout.tensor) * layout.pipeline;
    const parallel::DeviceParameters share{dense_ / ranks, experts_ / (ranks * layout.expert)};
    candidate.state_bytes = parallel::state_bytes(share, layout, *job_.recipe).device();
    candidate.least_bytes = candidate.state_bytes;
    if (layers_ == 0) return;
    const std::vector<std::int64_t> pieces = parallel::layers_of_pieces(layers_, layout);
    const std::vector<std::int64_t> held = parallel::in_flight(layout, 0);
    double layers = 0;
    for (std::size_t chunk = 0; chunk < held.size(); ++chunk) {
      const auto piece =
          static_cast<double>(pieces[chunk * static_cast<std::size_t>(layout.pipeline)]);
      layers += piece * static_cast<double>(held[chunk]);
    }
    candidate.least_bytes +=
        layers * kept_of_layer(layout) * static_cast<double>(layout.micro_batch);
  }

  /// Of the layer that keeps least, for one sample.
  double kept_of_layer(const Layout& layout) {
    const auto key = std::tuple(layout.context, layout.tensor, layout.sequence, layout.recompute,
                                layout.pipeline > 1);
    const auto known = kept_.find(key);
    if (known != kept_.end()) return known->second;
    Layout one = layout;
    one.micro_batch = 1;
    const parallel::MemoryStack& stack =
        parallel::usual_memory_stack(layout.tensor > 1 || layout.pipeline > 1);
    const parallel::MemoryStack* named = parallel::find_memory_stack(job_.memory_software);
    const parallel::ActivationSetting setting{job_.model, one, *job_.recipe,
                                              named == nullptr ? stack : *named};
    double least = -1;
    for (const parallel::BlockRun& run : runs_) {
      if (!run.block->is_layer) continue;
      const double kept = parallel::kept_bytes(setting, *run.block);
      least = least < 0 ? kept : std::min(least, kept);
    }
    return kept_[key] = std::max(0.0, least);
  }

  /// Empty where equal ones are as good.
  std::vector<std::int64_t> cuts_of(const Layout& layout) {
    const LayerCosts costs = costs_of(layout);
    std::vector<std::int64_t> cuts = balanced_cuts(costs, layout.pipeline);
    std::vector<std::int64_t> even = parallel::layers_of_pieces(layers_, layout);
    if (slowest_stage(costs, cuts) < slowest_stage(costs, even) * (1 - kWorthCutting)) return cuts;
    // Even ones that divide need no saying.
    if (layers_ % layout.pipeline == 0) even.clear();
    return even;
  }

  LayerCosts costs_of(Layout layout) const {
    layout.pipeline = 1;
    layout.schedule = PipelineSchedule::none;
    LayerCosts costs;
    double between = 0;
    for (const parallel::BlockRun& run : runs_) {
      parallel::BlockRun one = run;
      one.count = 1;
      const parallel::StageTime time =
          parallel::step_parts({one}, layout, *job_.recipe, *job_.machine,
                               parallel::usual_stack(true))
              .stages.front();
      const double cost = time.forward_s + time.backward_s;
      const auto count = static_cast<std::size_t>(run.count);
      if (run.block->is_layer) {
        // What stands between layers goes with the one behind it.
        if (!costs.layers.empty()) std::swap(between, costs.behind);
        costs.layers.insert(costs.layers.end(), count, cost);
        costs.layers[costs.layers.size() - count] += std::exchange(between, 0);
      } else {
        (costs.layers.empty() ? costs.before : costs.behind) += cost * static_cast<double>(count);
      }
    }
    return costs;
  }

  void sort_candidates() {
    std::stable_sort(space_.candidates.begin(), space_.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.step_s < b.step_s; });
  }

  const ClusterJob& job_;
  const SearchLimits& limits_;
  Reach reach_;
  std::vector<parallel::BlockRun> runs_;
  std::int64_t layers_;
  double dense_ = 0;
  double experts_ = 0;
  std::map<std::tuple<int, int, bool, Recompute, bool>, double> kept_;
  SearchSpace space_;
};

}  // namespace

SearchSpace search_space(const ClusterJob& job, const SearchLimits& limits, Reach reach) {
  return Enumeration(job, limits, reach).all();
}

int parts_of(const Layout& layout) {
  int parts = 0;
  for (const int degree : {layout.data, layout.tensor, layout.pipeline, layout.expert,
                           layout.context, layout.chunks}) {
    parts += degree > 1 ? 1 : 0;
  }
  for (const bool on :
       {layout.zero > 0, layout.sequence, layout.recompute != Recompute::none, !layout.cuts.empty(),
        layout.offload_optimizer != Offload::none, layout.offload_parameters != Offload::none}) {
    parts += on ? 1 : 0;
  }
  return parts;
}

}  // namespace lockstep::planner
