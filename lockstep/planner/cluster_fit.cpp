#include "lockstep/planner/cluster_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::Recompute;

constexpr std::size_t kMostWays = 5;
constexpr std::int64_t kMostData = std::int64_t{1} << 14;
constexpr int kMostStages = 64;
constexpr std::int64_t kMicroBatchesAStage = 4;

constexpr int kMostSharing = 3;
/// Of layers that are split anew: a pipeline would gather for each of its micro-batches.
constexpr int kMostInNewPipeline = 1;

bool looks_up(const ClusterJob& job) { return parallel::table_parameters(job.model) > 0; }

/// Fewer cannot hold the states, however they are shared.
std::int64_t fewest_devices(const ClusterJob& job) {
  const double parameters =
      job.given_parameters > 0 ? job.given_parameters : static_cast<double>(job.model.parameters());
  const auto memory = static_cast<double>(job.machine->device.memory_bytes);
  constexpr double kFp32Bytes = 4;  // of a table's number
  const double tables = parallel::table_parameters(job.model);
  const double bytes = (parameters - tables) * job.recipe->states() + kFp32Bytes * tables;
  return Saturated::of(std::ceil(bytes / memory)).value();
}

class Search {
 public:
  explicit Search(const ClusterJob& job)
      : job_(job), memory_bytes_(job.machine->device.memory_bytes) {
    job_.deepspeed_rule = false;
    job_.machine.reset();  // times are not asked for
  }

  /// Keeps the change where it can be and fits.
  bool try_one(std::string flags, const Layout& layout) {
    const std::int64_t bytes = bytes_if_possible(layout);
    if (bytes == 0 || bytes > memory_bytes_) return false;
    found_.push_back({std::move(flags), layout.devices(), bytes});
    return true;
  }

  [[nodiscard]] std::vector<WayToFit> found() && {
    if (found_.size() > kMostWays) found_.resize(kMostWays);
    return std::move(found_);
  }

 private:
  /// 0 where the layout cannot be.
  [[nodiscard]] std::int64_t bytes_if_possible(const Layout& layout) {
    if (!parallel::check_layout({layout, &job_.model, &job_.architecture, 0, 0}).empty()) return 0;
    job_.layout = layout;
    return std::max<std::int64_t>(1, plan_cluster(job_).memory.device.total());
  }

  ClusterJob job_;
  std::int64_t memory_bytes_;
  std::vector<WayToFit> found_;
};

void try_smaller_steps(const ClusterJob& job, Search& search) {
  Layout layout = job.layout;
  if (layout.micro_batch > 1) {
    layout.micro_batch = 1;
    if (search.try_one("--micro-batch 1", layout)) return;
  }
  layout = job.layout;
  const bool attends = job.model.attention_flops_per_sample() > 0;
  if (attends && !layout.flash_attention && job.machine->device.flash_attention) {
    layout.flash_attention = true;
    if (search.try_one("--flash-attention", layout)) return;
  }
  layout = job.layout;
  if (layout.recompute != Recompute::full) {
    layout.recompute = Recompute::full;
    search.try_one("--recompute full", layout);
  }
}

void try_sharing(const ClusterJob& job, Search& search) {
  for (int zero = job.layout.zero + 1; zero <= kMostSharing; ++zero) {
    Layout layout = job.layout;
    layout.zero = zero;
    if (layout.replicas() == 1) return;
    std::string flags = "--zero " + std::to_string(zero);
    if (search.try_one(flags, layout)) return;
    layout.recompute = Recompute::full;
    if (zero == kMostSharing && !job.states_only)
      search.try_one(flags + " --recompute full", layout);
  }
}

/// The fewest devices, in powers of two of data ranks, that hold it; 0 = none. Found ones are kept.
std::int64_t try_more_devices(const ClusterJob& job, std::int64_t at_least, std::int64_t below,
                              Recompute recompute, Search& search) {
  const Layout& now = job.layout;
  const std::int64_t others = now.devices() / std::max(1, now.data);
  for (std::int64_t data = 1; data <= kMostData; data *= 2) {
    const std::int64_t devices = data * others;
    if (devices <= now.devices() || devices < at_least) continue;
    if (below > 0 && devices >= below) break;
    Layout layout = now;
    layout.data = static_cast<int>(data);
    if (looks_up(job) && now.tables == now.data) layout.tables = layout.data;
    layout.zero = looks_up(job) ? now.zero : kMostSharing;
    layout.shard = 0;
    layout.recompute = recompute;
    std::string flags = "--gpus " + std::to_string(devices);
    if (layout.zero != now.zero) flags += " --zero " + std::to_string(layout.zero);
    if (recompute != now.recompute) flags += " --recompute full";
    if (search.try_one(flags, layout)) return devices;
  }
  return 0;
}

/// Fewer of them where layers are computed once more.
void try_more_devices(const ClusterJob& job, std::int64_t at_least, Search& search) {
  const Recompute now = job.layout.recompute;
  const std::int64_t devices = try_more_devices(job, at_least, 0, now, search);
  if (now != Recompute::full && !job.states_only) {
    (void)try_more_devices(job, at_least, devices, Recompute::full, search);
  }
}

void try_offloading(const ClusterJob& job, Search& search) {
  if (job.layout.pipeline > 1) return;
  for (const Recompute recompute : {job.layout.recompute, Recompute::full}) {
    if (job.states_only && recompute != job.layout.recompute) return;
    const std::string again = recompute == job.layout.recompute ? "" : " --recompute full";
    Layout layout = job.layout;
    layout.recompute = recompute;
    layout.offload_optimizer = Offload::cpu;
    layout.zero = std::max(2, layout.zero);
    const std::string stage =
        layout.zero == job.layout.zero ? "" : "--zero " + std::to_string(layout.zero) + " ";
    if (search.try_one(stage + "--offload-optimizer cpu" + again, layout)) return;
    layout.zero = 3;
    layout.offload_parameters = Offload::cpu;
    const std::string third = job.layout.zero == 3 ? "" : "--zero 3 ";
    if (search.try_one(third + "--offload cpu" + again, layout)) return;
  }
}

std::string split_flags(const Layout& now, const Layout& layout) {
  std::string flags;
  const auto add = [&](const std::string& flag, std::int64_t before, std::int64_t after) {
    if (before == after) return;
    flags += (flags.empty() ? "" : " ") + flag + " " + std::to_string(after);
  };
  add("--gpus", now.devices(), layout.devices());
  add("--tensor", now.tensor, layout.tensor);
  add("--pipeline", now.pipeline, layout.pipeline);
  add("--accumulation", now.accumulation, layout.accumulation);
  add("--zero", now.zero, layout.zero);
  return now.recompute == layout.recompute ? flags : flags + " --recompute full";
}

/// Layers over the devices of a host, and further over stages where that is not enough: the fewest
/// that hold it.
void try_splitting(const ClusterJob& job, Search& search) {
  const Layout& now = job.layout;
  const std::int64_t hosts_have = job.machine->devices_per_host;
  for (std::int64_t tensor = now.tensor; tensor <= hosts_have; tensor *= 2) {
    for (int pipeline = now.pipeline; pipeline <= kMostStages; pipeline *= 2) {
      const bool far = pipeline > 1 && tensor * 2 <= hosts_have;  // a host's devices first
      const bool same = tensor == now.tensor && pipeline == now.pipeline;
      if (far || same) continue;
      Layout layout = now;
      layout.data = static_cast<int>(
          std::max<std::int64_t>(1, now.devices() / (tensor * pipeline * now.context)));
      if (looks_up(job) && now.tables == now.data) layout.tables = layout.data;
      layout.tensor = static_cast<int>(tensor);
      layout.pipeline = pipeline;
      layout.recompute = Recompute::full;
      if (pipeline > 1) {
        layout.zero = std::min(now.zero, kMostInNewPipeline);
        layout.accumulation = std::max(now.accumulation, kMicroBatchesAStage * pipeline);
        if (now.pipeline == 1) layout.schedule = parallel::PipelineSchedule::one_f_one_b;
      }
      if (search.try_one(split_flags(now, layout), layout)) return;
    }
  }
}

}  // namespace

FitAdvice ways_to_fit(const ClusterJob& job) {
  FitAdvice advice;
  advice.devices_for_states = fewest_devices(job);
  Search search(job);
  if (!job.states_only) try_smaller_steps(job, search);
  try_sharing(job, search);
  try_more_devices(job, advice.devices_for_states, search);
  try_offloading(job, search);
  if (!job.states_only) try_splitting(job, search);
  advice.ways = std::move(search).found();
  return advice;
}

}  // namespace lockstep::planner
