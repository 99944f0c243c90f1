#include "lockstep/parallel/cost/data_parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/comm/shm/standard_layout.h"
#include "lockstep/parallel/cost/rates.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kBf16Bytes = 2;
constexpr std::int64_t kPadElements = 64;      // of a parameter in a flat buffer
constexpr std::int64_t kChunkElements = 4096;  // of the whole flat buffer
constexpr std::int64_t kControlFields = 6;     // loss, weight in two digits, three votes
constexpr std::int64_t kLeastKeptBytes = std::int64_t{16} << 20;  // by the allocator
constexpr std::int64_t kControlTimes = 6;                         // of each rank

Saturated padded(Saturated count, std::int64_t unit) { return (count + (unit - 1)) / unit * unit; }

/// Sizes that all formulas share.
struct Sizes {
  bool bf16 = false;  // compute type
  bool bf16_reduce = false;
  std::int64_t compute_bytes = 4;  // of an element of the compute type
  Saturated flat;                  // elements of all parameters, each padded
  std::int64_t parameters = 0;     // how many
  Saturated buffer_floats;         // of the module
  Saturated control;               // elements that ride with the last bucket
  Saturated last_bucket;           // elements of the last bucket, control not included
  Saturated early;                 // elements of the other buckets
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
      const Saturated count = padded(parameter.count(), kPadElements);
      s.flat += count;
      ++s.parameters;
      const std::int64_t with_this = ((s.last_bucket + count) * kFp32Bytes).value();
      const bool is_first = s.last_bucket.value() == 0;
      in_last = in_last && (is_first || with_this <= plan.last_bucket_bytes);
      (in_last ? s.last_bucket : s.early) += count;
    }
  }
  s.control = padded(s.buffer_floats + kControlFields + s.parameters +
                         Saturated(kControlTimes) * setting.world_size,
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
  const double cast_inputs = s.bf16 ? block.cast_input_elements : 0;
  return (block.activation_elements + cast_inputs) * static_cast<double>(s.compute_bytes) +
         block.activation_fp32_bytes;
}

/// Gradients on their way into a bucket while a block runs backward, in elements: the largest one.
/// A convolution's exists in the library's layout, in the usual one and in the weight's.
double transient_gradient(const model::BlockStats& block) {
  double most = 0;
  for (const model::ParameterStats& parameter : block.parameters) {
    const double copies = parameter.shape.size() == 4 ? 3 : 1;
    most = std::max(most, copies * static_cast<double>(parameter.count()));
  }
  return most;
}

/// The head's gradient of a tied embedding waits through backward for that of the embedding itself.
Saturated waiting_gradient(const model::ModelStats& model) {
  Saturated elements;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      if (parameter.split == model::Split::vocab) elements += parameter.count();
    }
  }
  return elements;
}

/// Activations peak while some block runs backward: what it and all before it keep, and what it
/// works with, either beside a gradient that is not in a bucket yet or between two of them.
Saturated peak_activation_bytes(const model::ModelStats& model, std::int64_t samples,
                                const Sizes& s) {
  const auto compute_bytes = static_cast<double>(s.compute_bytes);
  double kept = 0;
  double peak = 0;
  for (const model::BlockStats& block : model.blocks) {
    kept += kept_bytes(block, s) * static_cast<double>(samples);
    const double beside_gradient =
        block.peak_temporary_elements * static_cast<double>(samples) + transient_gradient(block);
    const double between = block.between_temporary_elements * static_cast<double>(samples);
    peak = std::max(peak, kept + std::max(beside_gradient, between) * compute_bytes);
  }
  return Saturated::of(peak) + waiting_gradient(model) * s.compute_bytes;
}

/// Flat gradient buffers: the sum, and with an ordered sum one pending partial sum for each level
/// of the tree below this rank.
std::int64_t gradient_buffers(const ParallelPlan& plan) {
  if (!plan.batch.ordered) return 1;
  const auto leaves = static_cast<std::uint64_t>(leaves_per_rank(plan));
  return 1 + std::bit_width(leaves) - 1;
}

Saturated staging_bytes(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const auto ranks = static_cast<int>(plan.batch.data_ranks);
  const auto shared = static_cast<std::int64_t>(comm::shm::standard_layout(ranks).total_bytes());
  return Saturated(shared) + (s.bf16_reduce ? s.early * kBf16Bytes : Saturated(0));
}

/// The worker itself, freed blocks that the allocator keeps (memory/block_cache.h: an eighth of
/// what is in use, but nothing frees more than the activations), workspaces of the operators.
Saturated runtime_bytes(const MemoryPlan& memory) {
  const std::int64_t in_use = memory.total();  // the runtime itself is still 0
  const std::int64_t kept = std::max(kLeastKeptBytes, in_use / 8);
  return Saturated(kWorkerRuntimeBytes) + std::min(kept, memory.activations) +
         memory.activations / 4;
}

MemoryPlan memory_of(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  const Saturated state_bytes = padded(s.flat, kChunkElements) * kFp32Bytes;
  const Saturated batches = (Saturated(setting.config.data.prefetch) + 1) * leaves_per_rank(plan);
  MemoryPlan memory;
  memory.parameters = (s.bf16 ? state_bytes / 2 : state_bytes).value();
  memory.gradients = ((s.flat + s.control) * kFp32Bytes * gradient_buffers(plan)).value();
  memory.optimizer = (state_bytes * (moments(setting.config.optimizer) + (s.bf16 ? 1 : 0))).value();
  memory.activations = peak_activation_bytes(setting.model, plan.batch.micro_batch, s).value();
  memory.buffers =
      (s.buffer_floats * kFp32Bytes * 2 +
       batches * plan.batch.micro_batch * setting.model.input_bytes_per_sample + setting.data_bytes)
          .value();
  memory.communication = staging_bytes(plan, s).value();
  memory.runtime = runtime_bytes(memory).value();
  return memory;
}

Saturated comm_bytes(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  return s.early * (s.bf16_reduce ? kBf16Bytes : kFp32Bytes) +
         (s.last_bucket + s.control) * kFp32Bytes;
}

double bucket_count(const ParallelPlan& plan, const Sizes& s) {
  const std::int64_t early_bytes = (s.early * kFp32Bytes).value();
  if (early_bytes == 0) return 1;
  const std::int64_t later = std::max<std::int64_t>(0, early_bytes - plan.first_bucket_bytes);
  return 2 + std::ceil(static_cast<double>(later) / static_cast<double>(plan.bucket_bytes));
}

/// Communication that backward of the last micro-batch does not hide, and always the last bucket's.
double exposed_comm_s(const ParallelPlan& plan, const Sizes& s, double crowding) {
  if (plan.batch.data_ranks == 1) return 0;
  const auto last_bytes = static_cast<double>(((s.last_bucket + s.control) * kFp32Bytes).value());
  const double last_s = kSharedLatencyS + last_bytes / kSharedBytesPerS;
  const double all_s = bucket_count(plan, s) * kSharedLatencyS +
                       static_cast<double>(plan.comm_bytes_per_step) / kSharedBytesPerS;
  const double hidden_s = plan.backward_s / static_cast<double>(leaves_per_rank(plan));
  return std::max(last_s * crowding, all_s * crowding - hidden_s);
}

void estimate_seconds(const Setting& setting, const Sizes& s, ParallelPlan& plan) {
  const RankRates rates = rank_rates(setting);
  const auto leaves = static_cast<double>(leaves_per_rank(plan));
  const double samples = static_cast<double>(plan.batch.micro_batch) * leaves;
  double kept = 0;
  for (const model::BlockStats& block : setting.model.blocks) kept += kept_bytes(block, s);
  const double matmul_s =
      samples * setting.model.forward_flops_per_sample() / rates.matmul_flops_per_s;
  const double copy_s = samples * kept / rates.copy_bytes_per_s;
  const double launch_s =
      static_cast<double>(setting.model.blocks.size()) * kBlockOverheadS * leaves * rates.crowding;
  plan.forward_s = matmul_s + copy_s + launch_s;
  plan.backward_s = 2 * plan.forward_s;
  const auto flat = static_cast<double>(s.flat.value());
  const auto states = static_cast<double>(2 + moments(setting.config.optimizer));
  const double state_bytes = flat * kFp32Bytes * states + (s.bf16 ? flat * kBf16Bytes : 0);
  plan.optimizer_s = state_bytes / rates.copy_bytes_per_s;
  plan.exposed_comm_s = exposed_comm_s(plan, s, rates.crowding);
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
  plan.comm_bytes_per_step = comm_bytes(plan, sizes).value();
  estimate_seconds(setting, sizes, plan);
}

}  // namespace lockstep::parallel
