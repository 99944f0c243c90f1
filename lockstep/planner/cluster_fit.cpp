#include "lockstep/planner/cluster_fit.h"

#include <algorithm>
#include <utility>

#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::Recompute;

constexpr std::size_t kMostWays = 4;
constexpr std::int64_t kMostData = std::int64_t{1} << 14;
constexpr std::int64_t kMostReplicas = std::int64_t{1} << 20;

/// Stages 2 and 3 would reduce or gather for each micro-batch of a pipeline.
int most_sharing(const Layout& layout) { return layout.pipeline > 1 ? 1 : 3; }

/// The fewest replicas, by halving: more never need more.
std::int64_t fewest_replicas(ClusterJob job) {
  Layout& layout = job.layout;
  layout.context = 1;
  layout.expert = 1;
  layout.shard = 0;
  layout.secondary_shard = 0;
  layout.zero = most_sharing(layout);
  const auto memory = static_cast<double>(job.machine->device.memory_bytes);
  const auto fit_on = [&](std::int64_t replicas) {
    layout.data = static_cast<int>(replicas);
    return fullest_states(job).device() <= memory;
  };
  if (!fit_on(kMostReplicas)) return 0;
  std::int64_t low = 1;
  std::int64_t high = kMostReplicas;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (fit_on(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
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
  if (!layout.flash_attention) {
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
  for (int zero = job.layout.zero + 1; zero <= most_sharing(job.layout); ++zero) {
    Layout layout = job.layout;
    layout.zero = zero;
    if (layout.replicas() == 1) return;
    std::string flags = "--zero " + std::to_string(zero);
    if (search.try_one(flags, layout)) return;
    layout.recompute = Recompute::full;
    if (zero == most_sharing(job.layout) && !job.states_only)
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
    layout.zero = std::max(now.zero, most_sharing(now));
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

}  // namespace

FitAdvice ways_to_fit(const ClusterJob& job) {
  FitAdvice advice;
  const Layout& layout = job.layout;
  const std::int64_t replicas = fewest_replicas(job);
  advice.devices_for_states = replicas * layout.tensor * layout.pipeline;
  Search search(job);
  if (!job.states_only) try_smaller_steps(job, search);
  try_sharing(job, search);
  try_more_devices(job, advice.devices_for_states, search);
  try_offloading(job, search);
  advice.ways = std::move(search).found();
  return advice;
}

}  // namespace lockstep::planner
