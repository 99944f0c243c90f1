#include "lockstep/parallel/cost/data_parallel.h"

#include <algorithm>
#include <bit>

#include "lockstep/parallel/cost/rates.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kBf16Bytes = 2;
constexpr std::int64_t kPadElements = 64;      // of a parameter in a flat buffer
constexpr std::int64_t kChunkElements = 4096;  // of the whole flat buffer
constexpr std::int64_t kControlFields = 5;     // loss, weight in two digits, two votes
constexpr std::int64_t kLeastKeptBytes = std::int64_t{16} << 20;  // by the allocator
constexpr std::int64_t kControlTimes = 6;      // of each rank

std::int64_t padded(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

/// Sizes that all formulas share.
struct Sizes {
  bool bf16 = false;  // compute type
  bool bf16_reduce = false;
  std::int64_t compute_bytes = 4;  // of an element of the compute type
  std::int64_t flat = 0;           // elements of all parameters, each padded
  std::int64_t parameters = 0;     // how many
  std::int64_t buffer_floats = 0;  // of the module
  std::int64_t control = 0;        // elements that ride with the last bucket
  std::int64_t last_bucket = 0;    // elements of the last bucket, control not included
};

Sizes sizes_of(const Setting& setting, const ParallelPlan& plan) {
  Sizes s;
  s.bf16 = setting.config.precision.compute == config::Dtype::bf16;
  s.bf16_reduce = setting.config.precision.reduce == config::Dtype::bf16;
  s.compute_bytes = s.bf16 ? kBf16Bytes : kFp32Bytes;
  bool in_last = true;  // backward readies the first parameters last
  for (const model::BlockStats& block : setting.model.blocks) {
    s.buffer_floats += block.buffer_floats;
    for (const model::ParameterStats& parameter : block.parameters) {
      const std::int64_t count = padded(parameter.count(), kPadElements);
      s.flat += count;
      ++s.parameters;
      const std::int64_t with_this = (s.last_bucket + count) * kFp32Bytes;
      in_last = in_last && (s.last_bucket == 0 || with_this <= plan.last_bucket_bytes);
      if (in_last) s.last_bucket += count;
    }
  }
  s.control =
      padded(kControlFields + kControlTimes * setting.world_size + s.parameters + s.buffer_floats,
             kPadElements);
  return s;
}

std::int64_t leaves_per_rank(const ParallelPlan& plan) {
  return plan.batch.leaves / plan.batch.data_ranks;
}

std::int64_t moments(const config::OptimizerSection& optimizer) {
  if (optimizer.name == config::OptimizerName::adamw) return 2;
  return optimizer.momentum != 0 ? 1 : 0;
}

double kept_bytes(const model::BlockStats& block, const Sizes& s) {
  return block.activation_elements * static_cast<double>(s.compute_bytes) +
         block.activation_fp32_bytes;
}

/// Gradients on their way into a bucket while a block runs backward, in elements: the largest one.
/// A convolution's exists in the library's layout, in the usual one and in the weight's.
std::int64_t transient_gradient(const model::BlockStats& block) {
  std::int64_t most = 0;
  for (const model::ParameterStats& parameter : block.parameters) {
    const std::int64_t copies = parameter.shape.size() == 4 ? 3 : 1;
    most = std::max(most, copies * parameter.count());
  }
  return most;
}

/// The head's gradient of a tied embedding waits through backward for that of the embedding itself.
std::int64_t waiting_gradient(const model::ModelStats& model) {
  std::int64_t elements = 0;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      if (parameter.split == model::Split::vocab) elements += parameter.count();
    }
  }
  return elements;
}

/// Activations peak while some block runs backward: what it and all before it keep, what it works
/// with and the gradients that are not in a bucket yet.
std::int64_t peak_activation_bytes(const model::ModelStats& model, std::int64_t samples,
                                   const Sizes& s) {
  const auto compute_bytes = static_cast<double>(s.compute_bytes);
  double kept = 0;
  double peak = 0;
  for (const model::BlockStats& block : model.blocks) {
    kept += kept_bytes(block, s) * static_cast<double>(samples);
    const double working = block.peak_temporary_elements * static_cast<double>(samples) +
                           static_cast<double>(transient_gradient(block));
    peak = std::max(peak, kept + working * compute_bytes);
  }
  return static_cast<std::int64_t>(peak) + waiting_gradient(model) * s.compute_bytes;
}

/// Flat gradient buffers: the sum, and with an ordered sum one pending partial sum for each level
/// of the tree below this rank.
std::int64_t gradient_buffers(const ParallelPlan& plan) {
  if (!plan.batch.ordered) return 1;
  const auto leaves = static_cast<std::uint64_t>(leaves_per_rank(plan));
  return 1 + std::bit_width(leaves) - 1;
}

std::int64_t staging_bytes(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  if (s.bf16_reduce) return (s.flat - s.last_bucket) * kBf16Bytes;
  return plan.batch.ordered ? (s.flat + s.control) * kFp32Bytes : 0;
}

/// The worker itself, freed blocks that the allocator keeps (memory/block_cache.h: an eighth of what
/// is in use, but nothing frees more than the activations), workspaces of the operators.
std::int64_t runtime_bytes(const MemoryPlan& memory) {
  const std::int64_t in_use = memory.parameters + memory.gradients + memory.optimizer +
                              memory.activations + memory.buffers + memory.communication;
  const std::int64_t kept = std::max(kLeastKeptBytes, in_use / 8);
  return kWorkerRuntimeBytes + std::min(kept, memory.activations) + memory.activations / 4;
}

MemoryPlan memory_of(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  const std::int64_t state_bytes = padded(s.flat, kChunkElements) * kFp32Bytes;
  const std::int64_t batches = (setting.config.data.prefetch + 1) * leaves_per_rank(plan);
  MemoryPlan memory;
  memory.parameters = s.bf16 ? state_bytes / 2 : state_bytes;
  memory.gradients = gradient_buffers(plan) * (s.flat + s.control) * kFp32Bytes;
  memory.optimizer = (moments(setting.config.optimizer) + (s.bf16 ? 1 : 0)) * state_bytes;
  memory.activations = peak_activation_bytes(setting.model, plan.batch.micro_batch, s);
  memory.buffers = 2 * s.buffer_floats * kFp32Bytes +
                   batches * plan.batch.micro_batch * setting.model.input_bytes_per_sample +
                   setting.data_bytes;
  memory.communication = staging_bytes(plan, s);
  memory.runtime = runtime_bytes(memory);
  return memory;
}

std::int64_t comm_bytes(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const std::int64_t last = (s.last_bucket + s.control) * kFp32Bytes;
  return (s.flat - s.last_bucket) * (s.bf16_reduce ? kBf16Bytes : kFp32Bytes) + last;
}

std::int64_t bucket_count(const ParallelPlan& plan, const Sizes& s) {
  const std::int64_t early_bytes = (s.flat - s.last_bucket) * kFp32Bytes;
  if (early_bytes == 0) return 1;
  const std::int64_t later = std::max<std::int64_t>(0, early_bytes - plan.first_bucket_bytes);
  return 2 + (later + plan.bucket_bytes - 1) / plan.bucket_bytes;
}

/// Communication that backward of the last micro-batch does not hide, and always the last bucket's.
double exposed_comm_s(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const double last_bytes = static_cast<double>((s.last_bucket + s.control) * kFp32Bytes);
  const double last_s = kGlooLatencyS + last_bytes / kGlooBytesPerS;
  const double all_s = static_cast<double>(bucket_count(plan, s)) * kGlooLatencyS +
                       static_cast<double>(plan.comm_bytes_per_step) / kGlooBytesPerS;
  const double hidden_s = plan.backward_s / static_cast<double>(leaves_per_rank(plan));
  return std::max(last_s, all_s - hidden_s);
}

void estimate_seconds(const Setting& setting, const Sizes& s, ParallelPlan& plan) {
  const RankRates rates = rank_rates(setting);
  const double samples = static_cast<double>(plan.batch.micro_batch * leaves_per_rank(plan));
  double kept = 0;
  for (const model::BlockStats& block : setting.model.blocks) kept += kept_bytes(block, s);
  const double matmul_s =
      samples * setting.model.forward_flops_per_sample() / rates.matmul_flops_per_s;
  const double copy_s = samples * kept / rates.copy_bytes_per_s;
  const double launch_s = static_cast<double>(setting.model.blocks.size()) * kBlockOverheadS *
                          static_cast<double>(leaves_per_rank(plan));
  plan.forward_s = matmul_s + copy_s + launch_s;
  plan.backward_s = 2 * plan.forward_s;
  const std::int64_t state_bytes = s.flat * kFp32Bytes * (2 + moments(setting.config.optimizer)) +
                                   (s.bf16 ? s.flat * kBf16Bytes : 0);
  plan.optimizer_s = static_cast<double>(state_bytes) / rates.copy_bytes_per_s;
  plan.exposed_comm_s = exposed_comm_s(plan, s);
  plan.step_s = plan.forward_s + plan.backward_s + plan.exposed_comm_s + plan.optimizer_s;
}

}  // namespace

std::vector<Problem> check_data_parallel(const Setting& setting) {
  std::vector<Problem> problems;
  const bool ordered = setting.config.parallel.virtual_ranks.has_value();
  if (ordered && setting.config.precision.reduce == config::Dtype::bf16) {
    problems.push_back({"LS-6010", "precision.reduce",
                        "virtual_ranks promises equal bits, which sums in bf16 cannot keep",
                        "use precision.reduce = \"fp32\", or drop parallel.virtual_ranks"});
  }
  return problems;
}

void estimate_data_parallel(const Setting& setting, ParallelPlan& plan) {
  const Sizes sizes = sizes_of(setting, plan);
  plan.memory = memory_of(setting, plan, sizes);
  plan.comm_bytes_per_step = comm_bytes(plan, sizes);
  estimate_seconds(setting, sizes, plan);
}

}  // namespace lockstep::parallel
