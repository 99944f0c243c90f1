#include "lockstep/parallel/cost/data_parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/shm/standard_layout.h"
#include "lockstep/parallel/cost/exchange_cost.h"
#include "lockstep/parallel/cost/run_time.h"
#include "lockstep/parallel/plan/control_numbers.h"
#include "lockstep/parallel/plan/powersgd_rule.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kNarrowBytes = 2;
constexpr std::int64_t kPadElements = 64;                         // of a parameter in a flat buffer
constexpr std::int64_t kChunkElements = 4096;                     // of the whole flat buffer
constexpr std::int64_t kLeastKeptBytes = std::int64_t{16} << 20;  // by the allocator
constexpr std::int64_t kWorkspaceBytes = 4'000'000;
constexpr std::int64_t kBf16WorkspaceBytes = 12'000'000;  // oneDNN compiles its products

Saturated padded(Saturated count, std::int64_t unit) { return (count + (unit - 1)) / unit * unit; }

/// Sizes that all formulas share.
struct Sizes {
  bool narrow = false;             // the compute type has 16 bits, beside fp32 masters
  bool widened = false;            // fp16: products are computed in fp32
  bool in_place = false;           // a gradient is neither added to another, nor narrower
  std::int64_t compute_bytes = 4;  // of an element of the compute type
  Saturated flat;                  // elements of all parameters, each padded
  std::int64_t parameters = 0;     // how many
  Saturated buffer_floats;         // of the module
  Saturated control;               // elements that ride with the last bucket
  Saturated last_bucket;           // elements of the last bucket, control not included
  Saturated early;                 // elements of the other buckets
  Saturated sent;                  // bytes of all gradients as they travel, control not included
  Saturated last_sent;             // of those in the last bucket
  Saturated staged;                // bytes kept for what travels
  Saturated errors;                // bytes of what compression left out
};

Sizes sizes_of(const Setting& setting, const ParallelPlan& plan) {
  Sizes s;
  s.narrow = setting.config.precision.compute != config::Dtype::fp32;
  s.widened = setting.config.precision.compute == config::Dtype::fp16;
  s.in_place = !s.narrow && !plan.batch.ordered && plan.batch.leaves_per_rank() == 1;
  const ExchangeCost& exchange = exchange_cost(plan.exchange);
  const std::int64_t powersgd_rank = setting.config.parallel.powersgd_rank;
  s.compute_bytes = s.narrow ? kNarrowBytes : kFp32Bytes;
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
      const ExchangeBytes bytes =
          exchange.bytes({parameter.shape, count.value(), in_last}, powersgd_rank);
      s.sent += bytes.sent;
      s.staged += bytes.staged;
      s.errors += bytes.errors;
      if (in_last) s.last_sent += bytes.sent;
    }
  }
  s.control = padded(s.buffer_floats + kControlFields + s.parameters +
                         Saturated(kControlOfARank) * setting.world_size,
                     kPadElements);
  if (exchange.stages_control) s.staged += s.control * kFp32Bytes;
  return s;
}

std::int64_t moments(const config::OptimizerSection& optimizer) {
  if (optimizer.name == config::OptimizerName::adamw) return 2;
  return optimizer.momentum != 0 ? 1 : 0;
}

double kept_bytes(const model::BlockStats& block, const Sizes& s) {
  const double cast_inputs = s.narrow ? block.cast_input_elements : 0;
  return (block.activation_elements + cast_inputs) * static_cast<double>(s.compute_bytes) +
         block.activation_fp32_bytes;
}

/// Gradients on their way into a bucket while a block runs backward, in elements: the largest one.
/// A convolution's exists in the library's layout, in the usual one and in the weight's; with fp16
/// all in fp32, of twice the bytes. Some blocks make those of matrices in their bucket.
double transient_gradient(const model::BlockStats& block, const Sizes& s) {
  const double of_convolution = s.widened ? 2 * 3 : 3;
  double most = 0;
  const bool in_place = block.makes_gradients_in_place && s.in_place;
  for (const model::ParameterStats& parameter : block.parameters) {
    const std::size_t dims = parameter.shape.size();
    if (in_place && dims == 2) continue;
    const double copies = dims == 4 ? of_convolution : 1;
    most = std::max(most, copies * static_cast<double>(parameter.count()));
  }
  return most;
}

/// Elements of an embedding whose rows are the head's too.
double tied_elements(const model::BlockStats& block) {
  double elements = 0;
  for (const model::ParameterStats& parameter : block.parameters) {
    if (parameter.split != model::Split::vocab) continue;
    elements += static_cast<double>(parameter.count());
  }
  return elements;
}

/// In fp16 an operator works with fp32 copies of what it reads and writes, weights included.
/// \param weight elements of the one that is widened.
double widened_bytes(const model::BlockStats& block, std::int64_t samples, double weight,
                     const Sizes& s) {
  if (!s.widened || tied_elements(block) > 0) return 0;  // rows of an embedding are only copied
  return kFp32Bytes * (block.widened_elements * static_cast<double>(samples) + weight);
}

double largest_parameter(const model::BlockStats& block) {
  double largest = 0;
  for (const model::ParameterStats& parameter : block.parameters) {
    largest = std::max(largest, static_cast<double>(parameter.count()));
  }
  return largest;
}

/// What a block works with in backward, beside what is kept: next to a gradient that is not in a
/// bucket yet, or between two of them.
double working_bytes(const model::BlockStats& block, std::int64_t samples, const Sizes& s) {
  const auto compute_bytes = static_cast<double>(s.compute_bytes);
  const double temporary = block.peak_temporary_elements * static_cast<double>(samples);
  const double between = block.between_temporary_elements * static_cast<double>(samples);
  return std::max((temporary + transient_gradient(block, s)) * compute_bytes +
                      widened_bytes(block, samples, largest_parameter(block), s),
                  between * compute_bytes);
}

/// The head of a tied embedding: the logits' gradient takes the place of the logits before that of
/// the weight is made.
double tied_head_bytes(const model::BlockStats& head, std::int64_t samples, double tied,
                       const Sizes& s) {
  const auto compute_bytes = static_cast<double>(s.compute_bytes);
  return std::max(head.peak_temporary_elements * static_cast<double>(samples) * compute_bytes,
                  tied * compute_bytes + widened_bytes(head, samples, tied, s));
}

/// The tied embedding's own gradient is added to the head's: their sum is a third one. In 16 bits
/// its own is made in fp32 first, and before they are added.
double tied_embedding_bytes(double tied, const Sizes& s) {
  return tied * static_cast<double>(s.narrow ? kFp32Bytes : s.compute_bytes);
}

/// Activations peak while some block runs backward: what it and all before it keep, and what it
/// works with. The head's gradient of a tied embedding waits through backward for that of the
/// embedding itself.
Saturated peak_activation_bytes(const model::ModelStats& model, std::int64_t samples,
                                const Sizes& s) {
  double tied = 0;
  for (const model::BlockStats& block : model.blocks) tied += tied_elements(block);
  const double waiting = tied * static_cast<double>(s.compute_bytes);
  double kept = 0;
  double peak = 0;
  for (const model::BlockStats& block : model.blocks) {
    kept += kept_bytes(block, s) * static_cast<double>(samples);
    const bool is_head = tied > 0 && &block == &model.blocks.back();
    const double works = is_head ? tied_head_bytes(block, samples, tied, s)
                                 : waiting + working_bytes(block, samples, s) +
                                       tied_embedding_bytes(tied_elements(block), s);
    peak = std::max(peak, kept + works);
  }
  return Saturated::of(peak);
}

/// Flat gradient buffers: the sum, and with an ordered sum one pending partial sum for each level
/// of the tree below this rank.
std::int64_t gradient_buffers(const ParallelPlan& plan) {
  if (!plan.batch.ordered) return 1;
  const auto leaves = static_cast<std::uint64_t>(plan.batch.leaves_per_rank());
  return 1 + std::bit_width(leaves) - 1;
}

Saturated staging_bytes(const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const auto ranks = static_cast<int>(plan.batch.data_ranks);
  const auto shared = static_cast<std::int64_t>(comm::shm::standard_layout(ranks).total_bytes());
  return Saturated(shared) + s.staged;
}

/// A rank adds up its share of the gradients where they lie, and writes the sum to all ranks: so
/// much of the others' memory counts as resident for it too. Partial sums and the sum take turns in
/// their buffers.
Saturated shared_gradient_bytes(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  const config::ParallelSection& parallel = setting.config.parallel;
  const bool never_sums = parallel.local_steps > 1 && parallel.local_steps_from == 0;
  if (plan.batch.data_ranks == 1 || never_sums) return 0;
  const std::int64_t ranks = plan.batch.data_ranks;
  return s.sent / ranks * (ranks - 1) * gradient_buffers(plan);
}

/// The largest matrix's gradient on its way into a bucket: the next one takes its block.
Saturated matrix_gradient_bytes(const model::ModelStats& model, const Sizes& s) {
  if (s.in_place) return 0;
  double most = 0;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      if (parameter.shape.size() != 2 || parameter.split == model::Split::vocab) continue;
      most = std::max(most, static_cast<double>(parameter.count()));
    }
  }
  return Saturated::of(most * static_cast<double>(s.compute_bytes + (s.widened ? kFp32Bytes : 0)));
}

/// The worker itself, freed blocks that the allocator keeps (memory/block_cache.h: an eighth of
/// what is in use, but nothing frees more than the activations), code and workspaces of operators.
Saturated runtime_bytes(const MemoryPlan& memory, const model::ModelStats& model, const Sizes& s) {
  const std::int64_t in_use = memory.total();  // the runtime itself is still 0
  const std::int64_t kept = std::max(kLeastKeptBytes, in_use / 8);
  const std::int64_t freed = memory.activations - matrix_gradient_bytes(model, s).value();
  const std::int64_t works = s.narrow && !s.widened ? kBf16WorkspaceBytes : kWorkspaceBytes;
  return Saturated(kWorkerRuntimeBytes) + std::clamp<std::int64_t>(freed, 0, kept) +
         std::min(works, memory.activations);
}

/// Samples that rank 0 runs at once to check gradients (parallel/session.h, CheckSplit); 0 = none.
std::int64_t checked_samples(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  if (setting.config.run.check_gradients == 0) return 0;
  const config::BatchShape& batch = plan.batch;
  if (setting.config.parallel.sync_batch_norm) return batch.micro_batch * batch.data_ranks;
  const bool apart = s.buffer_floats.value() > 0 || setting.config.model.dropout > 0;
  return apart ? batch.micro_batch : batch.global_batch;
}

/// A check has all gradients of a part beside what the part needs itself, and sums over its parts.
void add_check(MemoryPlan& memory, const Setting& setting, const ParallelPlan& plan,
               const Sizes& s) {
  const std::int64_t samples = checked_samples(setting, plan, s);
  if (samples == 0) return;
  const Saturated part =
      peak_activation_bytes(setting.model, samples, s) + s.flat * s.compute_bytes;
  memory.activations = std::max(memory.activations, part.value());
  if (samples < plan.batch.global_batch) {
    memory.gradients = (s.flat * kFp32Bytes + memory.gradients).value();
  }
}

/// The copy of its share that a rank writes behind the training (checkpoint.async).
Saturated saved_copy_bytes(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  const config::CheckpointSection& checkpoint = setting.config.checkpoint;
  if (!checkpoint.async || checkpoint.every == 0) return 0;
  return (s.flat * (1 + moments(setting.config.optimizer)) + s.buffer_floats) * kFp32Bytes /
         plan.batch.data_ranks;
}

MemoryPlan memory_of(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  const Saturated state_bytes = padded(s.flat, kChunkElements) * kFp32Bytes;
  const Saturated batches =
      Saturated(config::steps_held(setting.config.data)) * plan.batch.leaves_per_rank();
  MemoryPlan memory;
  memory.parameters = (s.narrow ? state_bytes / 2 : state_bytes).value();
  const bool alone = plan.batch.data_ranks == 1;
  memory.gradients = ((s.flat + s.control) * kFp32Bytes * gradient_buffers(plan) +
                      (alone ? Saturated(0) : s.errors))
                         .value();
  memory.optimizer =
      (state_bytes * (moments(setting.config.optimizer) + (s.narrow ? 1 : 0))).value();
  memory.activations = peak_activation_bytes(setting.model, plan.batch.micro_batch, s).value();
  add_check(memory, setting, plan, s);
  memory.buffers = (s.buffer_floats * kFp32Bytes * 2 +
                    batches * plan.batch.micro_batch * setting.model.input_bytes_per_sample +
                    setting.data_bytes + saved_copy_bytes(setting, plan, s))
                       .value();
  memory.communication = staging_bytes(plan, s).value();
  memory.runtime =
      (runtime_bytes(memory, setting.model, s) + shared_gradient_bytes(setting, plan, s)).value();
  return memory;
}

/// With local steps: the control numbers every time, and the state once in so many steps.
Saturated comm_bytes(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const Saturated control = s.control * kFp32Bytes;
  const std::int64_t every = setting.config.parallel.local_steps;
  if (every == 1) return s.sent + control;
  const Saturated state = padded(s.flat, kChunkElements) * kFp32Bytes;
  return control + state * (1 + moments(setting.config.optimizer)) / every;
}

double bucket_count(const ParallelPlan& plan, const Sizes& s) {
  const std::int64_t early_bytes = (s.early * kFp32Bytes).value();
  if (early_bytes == 0) return 1;
  const std::int64_t later = std::max<std::int64_t>(0, early_bytes - plan.first_bucket_bytes);
  return 2 + std::ceil(static_cast<double>(later) / static_cast<double>(plan.bucket_bytes));
}

/// What the exchange adds to a step. Where each rank has a core to itself and there are more of
/// them, backward of the last micro-batch hides all but the last bucket; else ranks add up on the
/// cores that compute, and nothing is hidden.
double exposed_comm_s(const Setting& setting, const ParallelPlan& plan, const Sizes& s) {
  if (plan.batch.data_ranks == 1) return 0;
  const auto last_bytes = static_cast<double>((s.last_sent + s.control * kFp32Bytes).value());
  const double last_s = exchange_time(setting, last_bytes);
  const double early_bytes =
      std::max(0.0, static_cast<double>(plan.comm_bytes_per_step) - last_bytes);
  const double buckets = bucket_count(plan, s) - 1;
  const double early_s = buckets > 0 ? buckets * exchange_time(setting, early_bytes / buckets) : 0;
  const int busy = setting.world_size * setting.config.run.threads;
  if (busy >= setting.host.cores) return last_s + early_s;
  const double hidden_s = plan.backward_s / static_cast<double>(plan.batch.leaves_per_rank());
  return last_s + std::max(0.0, early_s - hidden_s);
}

void estimate_seconds(const Setting& setting, const Sizes& s, ParallelPlan& plan) {
  const RunTime time = run_time(setting, plan, static_cast<double>(s.flat.value()));
  plan.forward_s = time.forward_s;
  plan.backward_s = time.backward_s;
  plan.optimizer_s = time.optimizer_s;
  plan.exposed_comm_s = exposed_comm_s(setting, plan, s);
  plan.step_s = plan.forward_s + plan.backward_s + plan.exposed_comm_s + plan.optimizer_s;
}

/// What fp16 computes with; other types have nothing to tell.
std::string compute_text(const config::PrecisionSection& precision) {
  if (precision.compute != config::Dtype::fp16) return "";
  const std::string scale = precision.loss_scale
                                ? "loss scale " + format_shortest(*precision.loss_scale)
                                : std::string("dynamic loss scale");
  return "fp16 beside fp32 masters, " + scale;
}

/// As parallel::decay_rules does it with the tensors themselves.
std::vector<ParameterGroup> decay_groups(const Setting& setting) {
  const config::OptimizerSection& optimizer = setting.config.optimizer;
  if (optimizer.decay == config::Decay::all || optimizer.weight_decay == 0) return {};
  std::vector<ParameterGroup> groups{{"no decay"}, {"others", optimizer.weight_decay}};
  for (const model::BlockStats& block : setting.model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      ParameterGroup& group = groups[parameter.shape.size() < 2 ? 0 : 1];
      ++group.parameters;
      group.elements = (Saturated(group.elements) + parameter.count()).value();
    }
  }
  return groups;
}

/// Once ranks update alone no gradient travels, in whatever form.
void check_exchange_before_local_steps(const config::RunConfig& config,
                                       std::vector<Problem>& problems) {
  const std::string exchange = exchange_name(config);
  if (exchange == "fp32") return;
  const std::int64_t until = config.parallel.local_steps_from;
  const bool compresses = exchange == "powersgd";
  const std::int64_t from = compresses ? powersgd_from(config) : 0;
  if (from < until) return;
  const std::string steps = "local_steps = " + std::to_string(config.parallel.local_steps);
  std::string what = "changes nothing: with " + steps + " no gradient travels from step " +
                     std::to_string(until) + " on (local_steps_from)";
  if (until > 0) {
    what += ", and powersgd begins at step " + std::to_string(from) +
            (config.parallel.powersgd_from ? " (powersgd_from)" : " (schedule.warmup_steps)");
  }
  const std::string later = "set parallel.local_steps_from above " + std::to_string(from);
  problems.push_back({"LS-6014", compresses ? "parallel.gradient_compression" : "precision.reduce",
                      what,
                      "drop it, " + later +
                          (until > 0 ? ", or parallel.powersgd_from below " + std::to_string(until)
                                     : ", or drop parallel.local_steps")});
}

/// What must be equal on all ranks is so only after an average.
void check_local_steps(const config::RunConfig& config, std::vector<Problem>& problems) {
  const std::int64_t every = config.parallel.local_steps;
  check_exchange_before_local_steps(config, problems);
  if (config.parallel.virtual_ranks) {
    problems.push_back({"LS-6010", "parallel.local_steps",
                        "virtual_ranks promises equal bits, which ranks that update alone cannot "
                        "keep",
                        "drop one of the two"});
  }
  if (config.checkpoint.every % every != 0) {
    problems.push_back({"LS-6014", "checkpoint.every",
                        std::to_string(config.checkpoint.every) +
                            " is no multiple of parallel.local_steps = " + std::to_string(every) +
                            ": the ranks have one state only after an average",
                        "set checkpoint.every = " +
                            std::to_string((config.checkpoint.every / every + 1) * every)});
  }
  if (config.run.check_gradients > 0) {
    problems.push_back({"LS-6014", "run.check_gradients",
                        "with parallel.local_steps there are no gradients of the whole batch",
                        "drop one of the two"});
  }
}

}  // namespace

std::vector<Problem> check_data_parallel(const Setting& setting) {
  std::vector<Problem> problems;
  const config::ParallelSection& parallel = setting.config.parallel;
  const std::string exchange = exchange_name(setting.config);
  if (parallel.virtual_ranks && exchange != "fp32") {
    const bool narrow = exchange != "powersgd";
    problems.push_back({"LS-6010", narrow ? "precision.reduce" : "parallel.gradient_compression",
                        "virtual_ranks promises equal bits, which sums that travel as " + exchange +
                            " cannot keep",
                        narrow ? "use precision.reduce = \"fp32\", or drop parallel.virtual_ranks"
                               : "drop one of the two"});
  }
  if (exchange == "powersgd" && setting.config.precision.reduce != config::Dtype::fp32) {
    problems.push_back({"LS-6013", "precision.reduce", "powersgd sends its matrices in fp32",
                        "drop precision.reduce"});
  }
  if (parallel.local_steps > 1) check_local_steps(setting.config, problems);
  return problems;
}

void estimate_data_parallel(const Setting& setting, ParallelPlan& plan) {
  plan.exchange = exchange_name(setting.config);
  const Sizes sizes = sizes_of(setting, plan);
  plan.memory = memory_of(setting, plan, sizes);
  plan.comm_bytes_per_step = comm_bytes(setting, plan, sizes).value();
  estimate_seconds(setting, sizes, plan);
  plan.compute = compute_text(setting.config.precision);
  plan.groups = decay_groups(setting);
}

}  // namespace lockstep::parallel
