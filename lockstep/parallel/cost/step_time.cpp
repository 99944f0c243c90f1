#include "lockstep/parallel/cost/step_time.h"

#include <algorithm>

#include "lockstep/parallel/cost/block_time.h"
#include "lockstep/parallel/cost/collective_time.h"
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
  double parameters = 0;
  double tensor_bytes = 0;
  double gathered_bytes = 0;
  double hand_over_bytes = 0;

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
    parameters += count * block.parameters;
    tensor_bytes += count * block.tensor_bytes;
    gathered_bytes += count * block.gathered_bytes;
  }
};

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
      stages.push_back(stage);
    }
    const double handed_over = hand_over_elements(runs);
    for (Stage& stage : stages) add_hand_over(stage, handed_over);
    return stages;
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
    if (layout_.zero >= 3) add_gather(stage, block, run.block->is_layer);
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

  void add_gather(Stage& stage, const BlockTime& block, bool is_layer) const {
    const double weights = block.parameters * recipe_.compute;
    const double gradients = block.parameters * recipe_.reduce;
    const double gather = gather_time(Collective::all_gather, weights);
    const double reduce = gather_time(Collective::reduce_scatter, gradients);
    stage.gathered_bytes = 2 * sent_bytes(Collective::all_gather, weights, shard_ranks()) +
                           sent_bytes(Collective::reduce_scatter, gradients, shard_ranks());
    const double forward =
        is_layer ? beside(block.forward_all_s(), gather) : constants_.gather_cost * gather;
    stage.forward_all_s += forward;
    stage.gather_s = forward + (is_layer ? beside(block.backward_all_s(), gather + reduce)
                                         : constants_.gather_cost * (gather + reduce));
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
    double all = -slowest.total_s();
    double parameters = 0;
    for (const Stage& stage : stages) {
      all += stage.total_s();
      parameters = std::max(parameters, stage.parameters);
    }
    time.bubble_s = all / static_cast<double>(layout_.chunks);
    time.tensor_bytes = times * slowest.tensor_bytes;
    time.pipeline_bytes = times * slowest.hand_over_bytes;
    time.exposed_data_comm_s = times * slowest.gather_s;
    time.data_bytes = times * slowest.gathered_bytes;
    if (layout_.zero < 3) add_data_exchange(time, parameters);
    time.optimizer_s = optimizer_time(parameters);
    time.step_s = time.forward_s + time.backward_s + time.recompute_s + time.tensor_comm_s +
                  time.pipeline_comm_s + time.exposed_data_comm_s + time.bubble_s +
                  time.optimizer_s;
    return time;
  }

  /// Of all gradients, in all_reduces. Stage 2 has no room for sums of whole gradients: it reduces
  /// (half of an all_reduce) behind every micro-batch, and gathers once. In a pipeline they are
  /// summed first (Llama 3's row goes by that).
  [[nodiscard]] double exchanges() const {
    const bool each_time = layout_.zero == 2 && layout_.pipeline == 1;
    return each_time ? (static_cast<double>(layout_.accumulation) + 1) / 2 : 1;
  }

  void add_data_exchange(TimePrediction& time, double parameters) const {
    const std::int64_t ranks = layout_.replicas();
    const double bytes = parameters * recipe_.reduce;
    const Group group = group_of(ranks, layout_.tensor, machine_);
    const Algorithm how = stack_.linear_exchange ? Algorithm::linear : Algorithm::best;
    const double exchange = collective_time(Collective::all_reduce, bytes, group, machine_, how);
    const double times = exchanges();
    time.exposed_data_comm_s += times * stack_.exposed_data * exchange;
    time.data_bytes += times * sent_bytes(Collective::all_reduce, bytes, ranks);
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

TimePrediction time_parts(const std::vector<BlockRun>& runs, const Layout& layout,
                          const PrecisionRecipe& recipe, const Machine& machine,
                          const SoftwareStack& stack, const TimeConstants& constants) {
  return StepClock(layout, recipe, machine, stack, constants).step(runs);
}

std::vector<StageTime> stage_times(const std::vector<BlockRun>& runs, const Layout& layout,
                                   const PrecisionRecipe& recipe, const Machine& machine,
                                   const SoftwareStack& stack, const TimeConstants& constants) {
  std::vector<StageTime> times;
  const StepClock clock(layout, recipe, machine, stack, constants);
  for (const Stage& stage : clock.stages_of(runs)) {
    const double backward = stage.total_s() - stage.forward_all_s - stage.hand_over_s;
    times.push_back({stage.forward_all_s, backward, stage.hand_over_s});
  }
  return times;
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
