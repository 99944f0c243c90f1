#include "lockstep/parallel/cost/step_time.h"

#include <algorithm>

#include "lockstep/parallel/cost/block_time.h"
#include "lockstep/parallel/cost/collective_time.h"
#include "lockstep/parallel/cost/pipeline_time.h"
#include "lockstep/parallel/cost/stage_split.h"

namespace lockstep::parallel {
namespace {

/// Adam reads and writes masters and moments once; gradients are read for the norm and the update,
/// weights written.
constexpr double kStatePasses = 2;
constexpr double kGradientPasses = 2;
constexpr double kHandOverLatencyS = 10e-6;
/// Of a host's memory, for each device: eight share some 200 GB/s.
constexpr double kHostBytesPerS = 25e9;
constexpr double kTwoWays = 2;  // an activation goes on, its gradient comes back

/// Of one stage and one micro-batch.
struct Stage {
  double forward_s = 0;
  double backward_s = 0;
  double recompute_s = 0;
  double tensor_comm_s = 0;
  double gather_s = 0;       // exposed, of ZeRO-3
  double forward_all_s = 0;  // of forward alone, exchange included
  double hand_over_s = 0;
  double forward_tensor_s = 0;  // part of tensor_comm_s
  double forward_gather_s = 0;  // of ZeRO-3, hidden or not
  double backward_gather_s = 0;
  double parameters = 0;
  double tensor_bytes = 0;
  double gathered_bytes = 0;
  double hand_over_bytes = 0;
  // In backward's order; blocks have none.
  std::vector<GradientPart> gradients{};
  std::vector<GradientPart> weights{};

  [[nodiscard]] double total_s() const {
    return forward_s + backward_s + recompute_s + tensor_comm_s + gather_s + hand_over_s;
  }

  void add(const Stage& block, double count) {
    forward_s += count * block.forward_s;
    backward_s += count * block.backward_s;
    recompute_s += count * block.recompute_s;
    tensor_comm_s += count * block.tensor_comm_s;
    gather_s += count * block.gather_s;
    forward_all_s += count * block.forward_all_s;
    forward_tensor_s += count * block.forward_tensor_s;
    forward_gather_s += count * block.forward_gather_s;
    backward_gather_s += count * block.backward_gather_s;
    parameters += count * block.parameters;
    tensor_bytes += count * block.tensor_bytes;
    gathered_bytes += count * block.gathered_bytes;
  }
};

double bytes_of(const std::vector<GradientPart>& parts) {
  double bytes = 0;
  for (const GradientPart& part : parts) bytes += static_cast<double>(part.count) * part.bytes;
  return bytes;
}

/// The last micro-batch of each chunk is followed by those of the other micro-batches that go
/// through the pipeline with it.
BucketQueue last_pass(const std::vector<GradientPart>& parts, const ExchangePrice& price,
                      double bucket_bytes, double behind_s, double pace_s, const Layout& layout) {
  BucketQueue queue(price, bucket_bytes);
  const auto together = std::min<std::int64_t>(layout.pipeline, layout.accumulation);
  int left = layout.chunks;
  for (const std::vector<GradientPart>& chunk : cut_by_time(parts, layout.chunks)) {
    for (const GradientPart& part : chunk) queue.add(part);
    queue.flush();
    queue.wait_until(queue.clock_s() + behind_s);
    if (--left > 0) queue.wait_until(queue.clock_s() + static_cast<double>(together - 1) * pace_s);
  }
  return queue;
}

class StepClock {
 public:
  StepClock(const Layout& layout, const PrecisionRecipe& recipe, const Machine& machine,
            const SoftwareStack& stack, const TimeConstants& constants)
      : layout_(layout),
        recipe_(recipe),
        machine_(machine),
        stack_(stack),
        constants_(constants),
        setting_(setting_of(layout, recipe, machine, stack)) {}

  [[nodiscard]] TimePrediction step(const std::vector<BlockRun>& runs) const {
    return put_together(stages_of(runs));
  }

  [[nodiscard]] std::vector<Stage> stages_of(const std::vector<BlockRun>& runs) const {
    std::vector<Stage> blocks;
    for (const BlockRun& run : runs) blocks.push_back(one_block(run));
    std::vector<Stage> stages;
    for (const std::vector<StagePart>& parts : split_stages(runs, layout_)) {
      Stage stage;
      for (const StagePart& part : parts) {
        stage.add(blocks[part.run], static_cast<double>(part.count));
      }
      add_gradients(stage, blocks, parts);
      stages.push_back(std::move(stage));
    }
    const double handed_over = hand_over_elements(runs);
    for (Stage& stage : stages) add_hand_over(stage, handed_over);
    return stages;
  }

  [[nodiscard]] StageTime stage_time(const Stage& stage) const {
    StageTime time;
    time.forward_s = stage.forward_all_s;
    time.backward_s = stage.total_s() - stage.forward_all_s - stage.hand_over_s;
    time.hand_over_s = stage.hand_over_s;
    time.forward_tensor_s = stage.forward_tensor_s;
    time.backward_tensor_s = stage.tensor_comm_s - stage.forward_tensor_s;
    time.forward_gather_s = stage.forward_gather_s;
    time.backward_gather_s = stage.backward_gather_s;
    time.optimizer_s = optimizer_time(stage.parameters);
    time.gradients = stage.gradients;
    time.weights = stage.weights;
    return time;
  }

  /// Stage 2 has no room for sums of whole gradients: it reduces behind every micro-batch, unless
  /// they stay whole for a step.
  [[nodiscard]] DataExchange exchange() const {
    DataExchange exchange;
    if (layout_.gathers_often() || layout_.replicas() <= 1) return exchange;
    const GradientBuckets& buckets = stack_.buckets;
    const Group group = group_of(layout_.replicas(), layout_.tensor, machine_);
    const Algorithm how = stack_.linear_exchange ? Algorithm::linear : Algorithm::best;
    exchange.reduce = {Collective::all_reduce, group, &machine_, how};
    exchange.beside_backward = buckets.beside_backward;
    exchange.each_micro_batch = layout_.zero == 2 && layout_.pipeline == 1;
    const double elements =
        buckets.elements > 0
            ? std::max(buckets.elements,
                       buckets.elements_a_rank * static_cast<double>(layout_.replicas()))
            : 0;
    exchange.bucket_bytes = buckets.bytes > 0 ? buckets.bytes : elements * recipe_.reduce;
    if (reduces_beside()) exchange.reduce.machine = nullptr;  // done; weights are left
    const bool whole = layout_.zero == 0 || !exchange.beside_backward;
    if (whole && !reduces_beside()) return exchange;
    exchange.reduce.collective = Collective::reduce_scatter;
    exchange.gather = {Collective::all_gather, group, &machine_, how};
    exchange.beside_forward = buckets.gathers_beside_forward;
    exchange.weight_bucket_bytes = elements * recipe_.compute;
    return exchange;
  }

 private:
  static OperatorSetting setting_of(const Layout& layout, const PrecisionRecipe& recipe,
                                    const Machine& machine, const SoftwareStack& stack) {
    OperatorSetting setting;
    setting.device = &machine.device;
    setting.samples = static_cast<double>(layout.micro_batch);
    setting.tensor = layout.tensor;
    setting.context = layout.context;
    setting.sequence = layout.sequence;
    setting.element_bytes = recipe.compute;
    if (layout.flash_attention) setting.flash = stack.flash > 0 ? stack.flash : 1;
    if (stack.kind == StackConstant::device_time) setting.slowdown = stack.constant;
    return setting;
  }

  [[nodiscard]] Stage one_block(const BlockRun& run) const {
    const BlockTime block = block_time(run, layout_, setting_, machine_, stack_);
    Stage stage;
    stage.forward_s = block.forward_s;
    stage.backward_s = block.backward_s;
    stage.recompute_s = block.recompute_s;
    stage.tensor_comm_s = block.forward_comm_s + block.backward_comm_s + block.recompute_comm_s;
    stage.tensor_bytes = block.tensor_bytes;
    stage.parameters = block.parameters;
    stage.forward_all_s = block.forward_all_s();
    stage.forward_tensor_s = block.forward_comm_s;
    if (layout_.gathers_often() || reduces_beside()) add_gather(stage, block, run.block->is_layer);
    return stage;
  }

  /// Computing beside an exchange is slowed by a share of it; what is longer counts.
  [[nodiscard]] double beside(double computing, double exchange) const {
    return std::max(computing + constants_.gather_cost * exchange, exchange) - computing;
  }

  [[nodiscard]] double gather_time(Collective collective, double bytes) const {
    if (stack_.flat_gather) {
      const double rate = machine_.between.bytes_per_s() * stack_.constant;
      return sent_bytes(collective, bytes, shard_ranks()) / rate;
    }
    return collective_time(collective, bytes, group_of(shard_ranks(), layout_.tensor, machine_),
                           machine_);
  }

  /// Stage 2 in a pipeline: each backward has its part of the exchange, as with stage 3.
  [[nodiscard]] bool reduces_beside() const {
    return layout_.zero == 2 && layout_.pipeline > 1 && layout_.reduces_often();
  }

  void add_gather(Stage& stage, const BlockTime& block, bool is_layer) const {
    const double weights = block.parameters * recipe_.compute;
    const double gradients = block.parameters * recipe_.reduce;
    const double gather =
        layout_.gathers_often() ? gather_time(Collective::all_gather, weights) : 0;
    const double reduce = gather_time(Collective::reduce_scatter, gradients);
    stage.forward_gather_s = gather;
    stage.backward_gather_s = gather + reduce;
    stage.gathered_bytes = sent_bytes(Collective::reduce_scatter, gradients, shard_ranks());
    if (layout_.gathers_often()) {
      stage.gathered_bytes += 2 * sent_bytes(Collective::all_gather, weights, shard_ranks());
    }
    const double forward =
        is_layer ? beside(block.forward_all_s(), gather) : constants_.gather_cost * gather;
    stage.forward_all_s += forward;
    stage.gather_s = forward + (is_layer ? beside(block.backward_all_s(), gather + reduce)
                                         : constants_.gather_cost * (gather + reduce));
  }

  void add_gradients(Stage& stage, const std::vector<Stage>& blocks,
                     const std::vector<StagePart>& parts) const {
    if (layout_.gathers_often() || layout_.replicas() <= 1) return;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const Stage& block = blocks[part->run];
      const double backward = block.total_s() - block.forward_all_s;
      stage.gradients.push_back({part->count, backward, block.parameters * recipe_.reduce});
      stage.weights.push_back(
          {part->count, block.forward_all_s, block.parameters * recipe_.compute});
    }
  }

  /// What a layer gets is what the stage before handed over.
  [[nodiscard]] double hand_over_elements(const std::vector<BlockRun>& runs) const {
    double most = 0;
    for (const BlockRun& run : runs) {
      if (run.block->is_layer) most = std::max(most, run.block->input_elements);
    }
    return most * setting_.samples / setting_.context;
  }

  void add_hand_over(Stage& stage, double elements) const {
    if (layout_.pipeline <= 1) return;
    const double whole = elements * setting_.element_bytes;
    const bool thin = layout_.sequence || stack_.scatters_hand_over;
    const double bytes = thin ? whole / layout_.tensor : whole;
    const bool far = machine_.devices > machine_.devices_per_host;
    const LinkModel& link = far ? machine_.between : machine_.inside;
    double once = bytes / link.bytes_per_s() + kHandOverLatencyS;
    if (thin && !layout_.sequence && layout_.tensor > 1) {
      once +=
          sent_bytes(Collective::all_gather, whole, layout_.tensor) / machine_.inside.bytes_per_s();
    }
    const double times = kTwoWays * static_cast<double>(layout_.chunks);
    const double slower = stack_.kind == StackConstant::hand_over ? stack_.constant : 1;
    stage.hand_over_s = times * slower * once;
    stage.hand_over_bytes = times * bytes;
  }

  [[nodiscard]] std::int64_t shard_ranks() const {
    return layout_.shard > 0 ? layout_.shard : layout_.replicas();
  }

  [[nodiscard]] TimePrediction put_together(const std::vector<Stage>& stages) const {
    const auto longer = [](const Stage& a, const Stage& b) { return a.total_s() < b.total_s(); };
    const Stage& slowest = *std::max_element(stages.begin(), stages.end(), longer);
    const auto times = static_cast<double>(layout_.accumulation);
    TimePrediction time;
    time.forward_s = times * slowest.forward_s;
    time.backward_s = times * slowest.backward_s;
    time.recompute_s = times * slowest.recompute_s;
    time.tensor_comm_s = times * slowest.tensor_comm_s;
    time.pipeline_comm_s = times * slowest.hand_over_s;
    double parameters = 0;
    for (const Stage& stage : stages) parameters = std::max(parameters, stage.parameters);
    time.bubble_s = pipeline_time(stages) - times * slowest.total_s();
    time.tensor_bytes = times * slowest.tensor_bytes;
    time.pipeline_bytes = times * slowest.hand_over_bytes;
    time.exposed_data_comm_s = times * slowest.gather_s;
    time.data_bytes = times * slowest.gathered_bytes;
    add_end(time, stages, exchange());
    if (!layout_.gathers_often()) time.data_bytes += exchanged_bytes(parameters, exchange());
    time.step_s = time.forward_s + time.backward_s + time.recompute_s + time.tensor_comm_s +
                  time.pipeline_comm_s + time.exposed_data_comm_s + time.bubble_s +
                  time.optimizer_s;
    return time;
  }

  [[nodiscard]] double pipeline_time(const std::vector<Stage>& stages) const {
    std::vector<PassTime> passes;
    for (const Stage& stage : stages) {
      const double backward = stage.total_s() - stage.forward_all_s - stage.hand_over_s;
      passes.push_back(
          {stage.forward_all_s + stage.hand_over_s / 2, backward + stage.hand_over_s / 2});
    }
    return parallel::pipeline_time(passes, layout_);
  }

  [[nodiscard]] StepPace pace_of(const std::vector<Stage>& stages) const {
    StepPace pace;
    double both = 0;
    for (const Stage& stage : stages) {
      const double forward = stage.forward_all_s + stage.hand_over_s / 2;
      pace.forward_s = std::max(pace.forward_s, forward);
      pace.backward_s = std::max(pace.backward_s, stage.total_s() - forward);
      both = std::max(both, stage.total_s());
    }
    pace.reduce_s = layout_.schedule == PipelineSchedule::gpipe ? pace.backward_s : both;
    return pace;
  }

  /// Behind the last backward: the exchange that is left, and the optimizer, of the stage that ends
  /// last. A stage ends its backward earlier than the first one by those of the stages between, and
  /// begins as much later.
  void add_end(TimePrediction& time, const std::vector<Stage>& stages,
               const DataExchange& exchange) const {
    double later_s = 0;
    double earlier_s = 0;
    double end_s = 0;
    double reduce_s = 0;
    double gather_s = 0;
    const StepPace pace = pace_of(stages);
    for (const Stage& stage : stages) {
      const StageTime own = stage_time(stage);
      const StageExchange exposed = stage_exchange(own, exchange, layout_, pace);
      const double end = exposed.reduce_s + own.optimizer_s - earlier_s;
      if (end > end_s) {
        end_s = end;
        reduce_s = std::max(0.0, exposed.reduce_s - earlier_s);
      }
      gather_s = std::max(gather_s, exposed.gather_s - later_s);
      earlier_s += (own.backward_s + own.hand_over_s / 2) / layout_.chunks;
      later_s += (own.forward_s + own.hand_over_s / 2) / layout_.chunks;
    }
    time.exposed_data_comm_s += reduce_s + gather_s;
    time.optimizer_s = end_s - reduce_s;
  }

  /// That a rank sends.
  [[nodiscard]] double exchanged_bytes(double parameters, const DataExchange& exchange) const {
    const std::int64_t ranks = layout_.replicas();
    const double gradients = parameters * recipe_.reduce;
    const double times = exchange.each_micro_batch ? static_cast<double>(layout_.accumulation) : 1;
    if (exchange.reduce.machine == nullptr) {
      return sent_bytes(Collective::all_gather, parameters * recipe_.compute, ranks);
    }
    if (exchange.reduce.collective == Collective::reduce_scatter) {
      return times * sent_bytes(Collective::reduce_scatter, gradients, ranks) +
             sent_bytes(Collective::all_gather, parameters * recipe_.compute, ranks);
    }
    return (times + 1) / 2 * sent_bytes(Collective::all_reduce, gradients, ranks);
  }

  [[nodiscard]] double optimizer_time(double parameters) const {
    const double own =
        layout_.zero >= 1 ? parameters / static_cast<double>(shard_ranks()) : parameters;
    const double bytes = kStatePasses * (recipe_.masters + recipe_.moments) +
                         kGradientPasses * (recipe_.gradients + recipe_.main_gradients) +
                         recipe_.weights;
    if (layout_.offload_optimizer == Offload::none) {
      const DeviceModel& device = machine_.device;
      return own * bytes / (device.memory_bytes_per_s * device.memory_efficiency);
    }
    const double crossing = own * (recipe_.reduce + recipe_.weights);
    return crossing / machine_.to_host.bytes_per_s() + own * bytes / kHostBytesPerS;
  }

  const Layout& layout_;
  const PrecisionRecipe& recipe_;
  const Machine& machine_;
  const SoftwareStack& stack_;
  const TimeConstants& constants_;
  OperatorSetting setting_;
};

void add_rates(TimePrediction& time, const model::ModelStats& model, const Layout& layout,
               const PrecisionRecipe& recipe, const Machine& machine) {
  const auto samples = static_cast<double>(layout.global_batch());
  const auto devices = static_cast<double>(layout.devices());
  const double own = model.model_flops_per_sample();
  double twice = 0;
  if (layout.recompute == Recompute::full) twice = model.layer_flops_per_sample();
  if (layout.recompute == Recompute::selective) twice = model.attention_flops_per_sample();
  const DeviceModel& device = machine.device;
  const double peak = recipe.compute < 4 ? device.half_flops_per_s : device.single_flops_per_s;
  const double rate = samples / (time.step_s * devices);
  time.tflops_per_device = own * rate / 1e12;
  time.mfu = own * rate / peak;
  time.hfu = (own + twice) * rate / peak;
}

}  // namespace

StageExchange stage_exchange(const StageTime& stage, const DataExchange& exchange,
                             const Layout& layout, const StepPace& pace) {
  StageExchange exposed;
  const bool reduces = exchange.reduce.machine != nullptr;
  const auto micro_batches = static_cast<double>(layout.accumulation);
  const double behind_s = stage.hand_over_s / 2 / layout.chunks;
  if (reduces && !exchange.beside_backward) {
    const double times = exchange.each_micro_batch ? (micro_batches + 1) / 2 : 1;
    exposed.reduce_s = times * exchange.reduce.seconds(bytes_of(stage.gradients));
    return exposed;
  }
  if (reduces) {
    const BucketQueue queue = last_pass(stage.gradients, exchange.reduce, exchange.bucket_bytes,
                                        behind_s, pace.backward_s / layout.chunks, layout);
    exposed.reduce_s = queue.exposed_s();
    if (exchange.each_micro_batch) {  // each adds what does not end before the next
      exposed.reduce_s += (micro_batches - 1) * std::max(0.0, queue.busy_s() - pace.reduce_s);
    }
  }
  if (exchange.gather.machine == nullptr) return exposed;
  if (!exchange.beside_forward) {
    exposed.gather_s = exchange.gather.seconds(bytes_of(stage.weights));
    return exposed;
  }
  const BucketQueue queue = last_pass(stage.weights, exchange.gather, exchange.weight_bucket_bytes,
                                      behind_s, pace.forward_s / layout.chunks, layout);
  // What the first micro-batch does not hide, the next ones do: the published run of this kind
  // (Megatron-Core, 16B) shows no more.
  const double later = exchange.each_micro_batch ? 0 : (micro_batches - 1) * stage.forward_s;
  exposed.gather_s = std::max(0.0, queue.exposed_s() - later);
  return exposed;
}

TimePrediction time_parts(const std::vector<BlockRun>& runs, const Layout& layout,
                          const PrecisionRecipe& recipe, const Machine& machine,
                          const SoftwareStack& stack, const TimeConstants& constants) {
  return StepClock(layout, recipe, machine, stack, constants).step(runs);
}

StepParts step_parts(const std::vector<BlockRun>& runs, const Layout& layout,
                     const PrecisionRecipe& recipe, const Machine& machine,
                     const SoftwareStack& stack, const TimeConstants& constants) {
  const StepClock clock(layout, recipe, machine, stack, constants);
  StepParts parts;
  parts.exchange = clock.exchange();
  for (const Stage& stage : clock.stages_of(runs)) parts.stages.push_back(clock.stage_time(stage));
  return parts;
}

TimePrediction predict_time(const model::ModelStats& model, const Layout& layout,
                            const PrecisionRecipe& recipe, const Machine& machine,
                            const SoftwareStack& stack, const TimeConstants& constants) {
  const std::vector<BlockRun> runs = block_runs(model);
  TimePrediction time = time_parts(runs, layout, recipe, machine, stack, constants);
  add_rates(time, model, layout, recipe, machine);
  time.assumptions.push_back("software as " + std::string(stack.name));
  time.assumptions.push_back("links: " + std::string(machine.inside.name) + " inside a host, " +
                             std::string(machine.between.name) + " between hosts");
  if (layout.offload_optimizer == Offload::nvme || layout.offload_parameters == Offload::nvme) {
    time.assumptions.emplace_back("NVMe as fast as the host's memory");
  }
  return time;
}

}  // namespace lockstep::parallel
