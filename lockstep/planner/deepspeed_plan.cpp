#include "lockstep/planner/deepspeed_plan.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::Recompute;

/// Of a device's memory: a plan is off by some per cent.
constexpr double kUsable = 0.9;
constexpr std::int64_t kMostMicroBatch = 64;  // where nobody says how many samples a step has
constexpr std::int64_t kMostOfAStep = 4096;   // where somebody does
constexpr std::int64_t kMicroBatchesAStage = 4;
constexpr double kDefaultBucket = 5e8;  // elements: deepspeed/runtime/zero/config.py
constexpr double kDefaultThreshold = 1e5;
constexpr double kDefaultLive = 1e9;

double elements_or(const DeepSpeedValue<std::int64_t>& value, double automatic, double missing) {
  if (value.fixed) return static_cast<double>(*value.fixed);
  return value.is_auto ? automatic : missing;
}

bool is_named(const DeepSpeedValue<bool>& value) { return value.fixed || value.is_auto; }

/// 0 = there is no second copy.
int secondary_shard_of(const DeepSpeedFile& file) {
  const std::int64_t ranks = file.secondary_shard.or_else(1);
  return ranks > 1 ? static_cast<int>(std::min<std::int64_t>(ranks, 1 << 20)) : 0;
}

bool is_adam(std::string type) {
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type.find("adam") != std::string::npos || type.find("lamb") != std::string::npos;
}

/// Device memory of a layout, times not asked for.
class Memory {
 public:
  explicit Memory(const ClusterJob& job) : job_(job), device_(job.machine->device.memory_bytes) {
    job_.states_only = false;
    job_.deepspeed_rule = false;
    job_.machine.reset();
  }
  [[nodiscard]] std::int64_t bytes(const Layout& layout) {
    job_.layout = layout;
    return plan_cluster(job_).memory.device.total();
  }
  [[nodiscard]] bool fits(const Layout& layout) {
    return static_cast<double>(bytes(layout)) <= kUsable * static_cast<double>(device_);
  }
  [[nodiscard]] std::string text(const Layout& layout) {
    return format_bytes(bytes(layout)) + " of " + format_bytes(device_);
  }

 private:
  ClusterJob job_;
  std::int64_t device_;
};

/// To share and to offload, in the order of what each costs.
struct Way {
  int zero;
  Offload optimizer;
  Offload parameters;
};
constexpr auto kWays = std::to_array<Way>({
    {0, Offload::none, Offload::none},
    {1, Offload::none, Offload::none},
    {2, Offload::none, Offload::none},
    {3, Offload::none, Offload::none},
    {1, Offload::cpu, Offload::none},
    {2, Offload::cpu, Offload::none},
    {3, Offload::cpu, Offload::none},
    {3, Offload::none, Offload::cpu},
    {3, Offload::none, Offload::nvme},
    {3, Offload::nvme, Offload::none},
    {3, Offload::cpu, Offload::cpu},
    {3, Offload::nvme, Offload::cpu},
    {3, Offload::cpu, Offload::nvme},
    {3, Offload::nvme, Offload::nvme},
});

class Settler {
 public:
  Settler(ClusterJob& job, const config::BatchSection& said)
      : job_(job), choice_(*job.deepspeed), file_(choice_.file), said_(said) {}

  [[nodiscard]] std::vector<Problem> settle() && {
    check_pipeline();
    train_ = known(file_.train_batch, said_.global_batch, "train_batch_size", "global batch");
    micro_ = known(file_.micro_batch, said_.micro_batch, "train_micro_batch_size_per_gpu",
                   "micro-batch");
    accumulation_ = known(file_.accumulation, said_.accumulation, "gradient_accumulation_steps",
                          "accumulation");
    if (!problems_.empty()) return std::move(problems_);
    find_stage();
    if (problems_.empty()) put_batch();
    return std::move(problems_);
  }

 private:
  void refuse(std::string what, std::string fix) {
    problems_.push_back({"LS-6115", file_.where, std::move(what), std::move(fix)});
  }

  void check_pipeline() {
    const Layout& layout = job_.layout;
    if (layout.pipeline == 1 || layout.zero < 2) return;
    refuse("zero_optimization.stage is " + std::to_string(layout.zero) +
               ", and DeepSpeed's pipeline engine takes stages 0 and 1",
           "use \"stage\": 1, or --pipeline 1");
  }

  /// What the file fixes, else what was said besides.
  std::optional<std::int64_t> known(const DeepSpeedValue<std::int64_t>& value,
                                    const std::optional<std::int64_t>& said, const char* key,
                                    const std::string& name) {
    if (value.fixed && said && *value.fixed != *said) {
      refuse(std::string(key) + " is " + std::to_string(*value.fixed) + ", and the " + name +
                 " asked for is " + std::to_string(*said),
             std::string("keep one of the two, or write \"") + key + "\": \"auto\"");
    }
    if (value.fixed) return value.fixed;
    if (said) choice_.because[key] = "the " + name + " asked for";
    return said;
  }

  [[nodiscard]] std::int64_t ranks() const { return std::max(1, job_.layout.data); }

  /// The first way to share and to offload that fits, in the order of what it costs.
  void find_stage() {
    if (!file_.zero.is_auto && !file_.offload_optimizer.is_auto &&
        !file_.offload_parameters.is_auto) {
      return;
    }
    if (refuses_every_stage()) return;
    Layout best = job_.layout;
    std::string why = "no device was named to fit into";
    for (const auto& [zero, optimizer, parameters] : kWays) {
      if (!allowed(file_.zero, std::int64_t{zero}) ||
          !allowed(file_.offload_optimizer, optimizer) ||
          !allowed(file_.offload_parameters, parameters) ||
          (job_.layout.pipeline > 1 && zero > 1) || (job_.layout.secondary_shard > 0 && zero < 3)) {
        continue;
      }
      Layout layout = job_.layout;
      layout.zero = zero;
      layout.offload_optimizer = optimizer;
      layout.offload_parameters = parameters;
      layout.micro_batch = micro_.value_or(1);
      best = layout;
      if (!job_.machine) break;
      Memory memory(job_);
      const bool fits = memory.fits(layout);
      why = (fits ? "the first that fits: " : "nothing fits, and this takes least: ") +
            memory.text(layout);
      if (fits) break;
    }
    job_.layout.zero = best.zero;
    job_.layout.offload_optimizer = best.offload_optimizer;
    job_.layout.offload_parameters = best.offload_parameters;
    for (const char* key : {"stage", "offload_optimizer.device", "offload_param.device"}) {
      choice_.because[std::string("zero_optimization.") + key] = why;
    }
  }

  /// What goes with stage 3 alone, beside a pipeline, which takes 0 and 1.
  bool refuses_every_stage() {
    if (job_.layout.pipeline == 1) return false;
    const char* part = nullptr;
    if (file_.offload_parameters.or_else(Offload::none) != Offload::none) part = "offload_param";
    if (file_.offload_optimizer.or_else(Offload::none) == Offload::nvme) {
      part = "offload_optimizer on nvme";
    }
    if (job_.layout.secondary_shard > 0) part = "zero_hpz_partition_size";
    if (part == nullptr) return false;
    refuse(std::string("no stage goes with both a pipeline and ") + part +
               ": DeepSpeed's pipeline engine takes stages 0 and 1, " + part + " is of stage 3",
           std::string("drop ") + part + ", or use --pipeline 1");
    job_.layout.zero = 3;  // so that the same is not said of the layout too
    return true;
  }

  /// Absent: DeepSpeed's default, nothing shared and nothing offloaded.
  template <typename Value>
  static bool allowed(const DeepSpeedValue<Value>& value, Value wanted) {
    return value.is_auto || value.or_else(Value{}) == wanted;
  }

  /// DeepSpeed's order (runtime/config.py, _set_batch_related_parameters); what nobody says is 1
  /// there, and found here where the file says "auto".
  void put_batch() {
    const bool finds = file_.micro_batch.is_auto;
    if (train_ && micro_ && !accumulation_) {
      accumulation_ = std::max<std::int64_t>(1, *train_ / (*micro_ * ranks()));
    } else if (train_ && accumulation_ && !micro_) {
      micro_ = std::max<std::int64_t>(1, *train_ / (*accumulation_ * ranks()));
    } else if (train_ && !micro_) {
      micro_ = finds ? found(std::max<std::int64_t>(1, *train_ / ranks()))
                     : std::max<std::int64_t>(1, *train_ / ranks());
      accumulation_ = std::max<std::int64_t>(1, *train_ / (*micro_ * ranks()));
    }
    if (!accumulation_) accumulation_ = usual_accumulation();
    job_.layout.accumulation = *accumulation_;
    if (!micro_) micro_ = finds ? found(0) : 1;
    job_.layout.micro_batch = *micro_;
    if (train_ && *train_ != job_.layout.global_batch()) refuse_batch();
  }

  [[nodiscard]] std::int64_t usual_accumulation() {
    const Layout& layout = job_.layout;
    if (layout.pipeline == 1 || !file_.accumulation.is_auto) return 1;
    choice_.because["gradient_accumulation_steps"] =
        format_count(kMicroBatchesAStage) + " micro-batches a pipeline stage";
    return kMicroBatchesAStage * layout.pipeline;
  }

  /// The largest micro-batch that fits: of the divisors of `samples`, or where that is 0 of the
  /// powers of two. 1 where no device is named.
  std::int64_t found(std::int64_t samples) {
    std::string& why = choice_.because["train_micro_batch_size_per_gpu"];
    why = "no device was named to fit into";
    if (!job_.machine) return 1;
    Memory memory(job_);
    Layout layout = job_.layout;
    const auto cut = [&](std::int64_t size) {
      layout.micro_batch = size;
      if (samples > 0) layout.accumulation = samples / size;
    };
    const std::vector<std::int64_t> sizes = sizes_of(samples);
    const auto large = std::partition_point(sizes.begin(), sizes.end(), [&](std::int64_t size) {
      cut(size);
      return memory.fits(layout);
    });
    const bool fits = large != sizes.begin();
    cut(fits ? *(large - 1) : sizes.front());
    why = (!fits                  ? "a single sample is too much too: "
           : large == sizes.end() ? "it fits: "
                                  : "the largest that fits with room to spare: ") +
          memory.text(layout);
    return layout.micro_batch;
  }

  /// Ascending.
  static std::vector<std::int64_t> sizes_of(std::int64_t samples) {
    std::vector<std::int64_t> sizes;
    const std::int64_t most = samples > 0 ? std::min(samples, kMostOfAStep) : kMostMicroBatch;
    for (std::int64_t size = 1; size <= most; ++size) {
      const bool is_power = (size & (size - 1)) == 0;
      if (samples > 0 ? samples % size == 0 : is_power) sizes.push_back(size);
    }
    return sizes;
  }

  void refuse_batch() {
    const Layout& layout = job_.layout;
    const std::int64_t step = layout.micro_batch * ranks();
    const std::int64_t below = *train_ / step;
    std::string fix = "use ";
    if (below > 0) fix += std::to_string(below * step) + " or ";
    fix += std::to_string((below + 1) * step);
    refuse("train_batch_size is " + std::to_string(*train_) + ", but micro-batch " +
               std::to_string(layout.micro_batch) + " x accumulation " +
               std::to_string(layout.accumulation) + " x " + counted(ranks(), "data rank") +
               " is " + std::to_string(layout.global_batch()),
           fix + " with gradient_accumulation_steps \"auto\", or another of the three");
  }

  ClusterJob& job_;
  DeepSpeedChoice& choice_;
  const DeepSpeedFile& file_;
  const config::BatchSection& said_;
  std::vector<Problem> problems_;
  std::optional<std::int64_t> train_;
  std::optional<std::int64_t> micro_;
  std::optional<std::int64_t> accumulation_;
};

}  // namespace

double hidden_size(const model::Architecture& architecture) {
  std::int64_t most = architecture.width;
  for (const std::int64_t width : architecture.stage_widths) most = std::max(most, width);
  return static_cast<double>(most);
}

parallel::MemoryStack deepspeed_memory_stack(const ClusterJob& job) {
  const DeepSpeedFile& file = job.deepspeed->file;
  parallel::MemoryStack stack = *parallel::find_memory_stack("DeepSpeed");
  const double hidden = hidden_size(job.architecture);
  const bool third = job.layout.zero == 3;
  // Stages 1 and 2 fill one bucket while the other one travels (stage_1_and_2.py, ipg_buffer).
  const double buckets = !third && file.overlap_comm.or_else(false) ? 2 : 1;
  stack.bucket_bytes = buckets * job.recipe->reduce *
                       elements_or(file.reduce_bucket, hidden * hidden, kDefaultBucket);
  stack.gathered_elements =
      std::max(1.0, elements_or(file.live_parameters, kDefaultLive, kDefaultLive));
  stack.persistent_elements =
      elements_or(file.persistence_threshold, 10 * hidden, kDefaultThreshold);
  return stack;
}

FilePrecision precision_by(const DeepSpeedFile& file, std::string said, bool given) {
  FilePrecision taken;
  for (const bool half : {false, true}) {
    const std::string type = half ? "fp16" : "bf16";
    const DeepSpeedValue<bool>& value = half ? file.fp16 : file.bf16;
    const bool same = said.starts_with(type);
    if (given && value.fixed && *value.fixed != same) {
      taken.problems.push_back(
          {"LS-6115", file.where,
           type + (same ? " is switched off" : " is enabled") + ", and --precision is " + said,
           "keep one of the two, or write \"enabled\": \"auto\""});
    }
    if (!given && value.or_else(false)) said = type;
  }
  const bool named = is_named(file.bf16) || is_named(file.fp16);
  // A section that is missing is off too: deepspeed/runtime/constants.py, *_ENABLED_DEFAULT.
  const DeepSpeedValue<bool>& own = said.starts_with("fp16") ? file.fp16 : file.bf16;
  const bool off = !own.is_auto && !own.or_else(false);
  if (!given && named && off && said != "fp32") {
    said = "fp32";
    taken.note = file.where + " enables neither bf16 nor fp16, and DeepSpeed then trains in fp32";
  }
  if (!named && said != "fp32") {
    taken.note =
        file.where +
        " names neither bf16 nor fp16, and DeepSpeed then trains in fp32 (--precision fp32)";
  }
  taken.name = std::move(said);
  return taken;
}

void put_deepspeed_states(ClusterJob& job, bool recompute_is_said) {
  const DeepSpeedFile& file = job.deepspeed->file;
  Layout& layout = job.layout;
  layout.zero = static_cast<int>(file.zero.or_else(0));
  layout.offload_optimizer = file.offload_optimizer.or_else(Offload::none);
  layout.offload_parameters = file.offload_parameters.or_else(Offload::none);
  layout.secondary_shard = secondary_shard_of(file);
  job.memory_software = "DeepSpeed";
  job.assumptions.insert(job.assumptions.end(), file.notes.begin(), file.notes.end());
  if (file.checkpoints_activations && !recompute_is_said) {
    layout.recompute = Recompute::full;
    job.assumptions.emplace_back(
        "activation_checkpointing in the file: the model computes its layers once more");
  }
  if (!file.optimizer.empty() && !is_adam(file.optimizer)) {
    job.assumptions.push_back("the moments of " + file.optimizer + " are counted as Adam's");
  }
}

std::vector<Problem> settle_deepspeed(ClusterJob& job, const config::BatchSection& said) {
  return Settler(job, said).settle();
}

std::int64_t deepspeed_global_batch(const DeepSpeedFile& file, const config::BatchSection& said,
                                    std::int64_t devices) {
  const auto of = [](const DeepSpeedValue<std::int64_t>& value,
                     const std::optional<std::int64_t>& otherwise) {
    return value.fixed ? value.fixed : otherwise;
  };
  if (const auto train = of(file.train_batch, said.global_batch)) return *train;
  const auto micro = of(file.micro_batch, said.micro_batch);
  const auto accumulation = of(file.accumulation, said.accumulation);
  if (!micro && !accumulation) return 0;
  return (Saturated(micro.value_or(1)) * accumulation.value_or(1) * devices).value();
}

FixedParts fixed_by(const DeepSpeedFile& file) {
  FixedParts fixed;
  fixed.data_ranks_alone = true;
  if (!file.zero.is_auto) fixed.zero = static_cast<int>(file.zero.or_else(0));
  if (!file.offload_optimizer.is_auto) {
    fixed.offload_optimizer = file.offload_optimizer.or_else(Offload::none);
  }
  if (!file.offload_parameters.is_auto) {
    fixed.offload_parameters = file.offload_parameters.or_else(Offload::none);
  }
  fixed.micro_batch = file.micro_batch.fixed;
  fixed.accumulation = file.accumulation.fixed;
  fixed.secondary_shard = secondary_shard_of(file);
  return fixed;
}

}  // namespace lockstep::planner
