#include "lockstep/parallel/cost/run_time.h"

#include <algorithm>

#include "lockstep/parallel/cost/rates.h"

namespace lockstep::parallel {
namespace {

using model::OperatorKind;
using model::OperatorStats;

constexpr double kParametersOfALayer = 2;
/// PowerSGD: two products with few columns, the rows made orthogonal, what was left out added and
/// kept: so often is each element read and written.
constexpr double kPowersgdPasses = 8;
constexpr double kForwardShare = 1.0 / 3;  // of what surrounds the operators

/// All operators of one micro-batch.
class OperatorSum {
 public:
  OperatorSum(const KernelTable& table, config::Dtype type, double samples)
      : table_(table), type_(type), samples_(samples) {}

  void add(const model::BlockStats& block, bool reads_data) {
    for (const OperatorStats& op : block.operators) {
      add(op, reads_data && &op == &block.operators.front());
    }
  }

  [[nodiscard]] double forward_s() const { return forward_s_; }
  [[nodiscard]] double backward_s() const { return backward_s_; }

 private:
  static bool is_relu(const OperatorStats& op) { return op.name.find("relu") != std::string::npos; }

  void add(const OperatorStats& op, bool first) {
    switch (op.kind) {
      case OperatorKind::product:
        return add(Kernel::linear, first, op.m * samples_, op.n, op.k);
      case OperatorKind::convolution:
        return add(op.kernel_area > 1 ? Kernel::convolution_3x3 : Kernel::convolution_1x1, first,
                   op.m * samples_, op.n, op.k / op.kernel_area);
      case OperatorKind::attention:
        return add(Kernel::attention, first, op.m, op.times * samples_, op.k);
      case OperatorKind::norm:
        return add(is_of_images(op) ? Kernel::batch_norm : Kernel::layer_norm, first,
                   op.m * samples_, op.n);
      case OperatorKind::loss:
        return add(Kernel::loss, first, op.m * samples_, op.n);
      case OperatorKind::embedding:
        return add(Kernel::embedding, first, op.m * samples_, op.n);
      case OperatorKind::dropout:
        return add(Kernel::dropout, first, op.moved_elements / 2 * samples_);
      case OperatorKind::pointwise:
      case OperatorKind::router:
        return add_pointwise(op, first);
    }
  }

  void add_pointwise(const OperatorStats& op, bool first) {
    const double moved = op.moved_elements * samples_;
    if (is_relu(op)) return add(Kernel::relu, first, moved / 2);
    if (op.name.find("activation") != std::string::npos) return add(Kernel::gelu, first, moved / 2);
    if (op.name == "pool") return add(Kernel::copy, first, moved / 2);
    add(Kernel::sum, first, moved / 3);
  }

  static bool is_of_images(const OperatorStats& op) {
    return op.name.starts_with("bn") || op.name.ends_with("_bn");
  }

  void add(Kernel kernel, bool first, double m, double n = 1, double k = 1) {
    const KernelSeconds seconds = table_.seconds(kernel, type_, m, n, k);
    forward_s_ += seconds.forward_s;
    backward_s_ += first ? seconds.backward_first_s : seconds.backward_s;
  }

  const KernelTable& table_;
  config::Dtype type_;
  double samples_;
  double forward_s_ = 0;
  double backward_s_ = 0;
};

Kernel update_kernel(const config::OptimizerSection& optimizer) {
  if (optimizer.name == config::OptimizerName::adamw) return Kernel::adamw;
  return optimizer.momentum != 0 ? Kernel::momentum : Kernel::sgd;
}

/// What surrounds the operators: a step of next to nothing, less the operators in it. Most of it
/// goes with the number of parameters: each has a node, a place in a bucket, an update.
struct Surroundings {
  double step_s = 0;         // once a step
  double micro_batch_s = 0;  // of each
};

/// \param factor of what ranks that share cores take, which the measured steps have in them.
Surroundings surroundings(const Setting& setting, const KernelTable& table, double parameters,
                          double factor) {
  const config::Dtype type = setting.config.precision.compute;
  const KernelRates& rates = setting.host.rates();
  const int cores = setting.host.cores;
  const KernelPoints* steps = points_of(rates, Kernel::step, setting.world_size, cores);
  LOCKSTEP_CHECK(steps != nullptr, "rates without a step");
  const KernelTable measured(steps->points);
  const double turns = std::max(
      1.0, ranks_a_core(setting.world_size, cores) / ranks_a_core(steps->ranks, rates.cores));
  const double two = turns * measured.seconds(Kernel::step, type, kTinyLayers[0]).forward_s;
  const double ten = turns * measured.seconds(Kernel::step, type, kTinyLayers[1]).forward_s;
  const KernelSeconds layer =
      table.seconds(Kernel::linear, type, kTinyBatch, kTinyWidth, kTinyWidth);
  const KernelSeconds loss = table.seconds(Kernel::loss, type, kTinyBatch, kTinyClasses);
  const double layer_s = factor * (layer.forward_s + layer.backward_s);
  const double loss_s = factor * (loss.forward_s + loss.backward_s);
  const double a_block = std::max(0.0, (ten - two) / (kTinyLayers[1] - kTinyLayers[0]) - layer_s);
  const double once = std::max(0.0, two - kTinyLayers[0] * (layer_s + a_block) - loss_s);
  return {once, a_block / kParametersOfALayer * parameters};
}

double parameter_count(const model::ModelStats& model) {
  double count = 0;
  for (const model::BlockStats& block : model.blocks) {
    count += static_cast<double>(block.parameters.size());
  }
  return count;
}

/// Sums of whole gradients that a rank makes itself: into what earlier micro-batches left, or up
/// the tree; in 16 bits also each gradient's way into its fp32 place.
double own_sums_s(const Setting& setting, const ParallelPlan& plan, const KernelTable& table,
                  double flat) {
  const double leaves = static_cast<double>(plan.batch.leaves_per_rank());
  const bool narrow = setting.config.precision.compute != config::Dtype::fp32;
  const double add_s = table.seconds(Kernel::sum, config::Dtype::fp32, flat).forward_s;
  const double widen_s = table.seconds(Kernel::copy, config::Dtype::fp32, flat).forward_s;
  const bool compresses = plan.exchange == "powersgd" && plan.batch.data_ranks > 1;
  return add_s * (leaves - 1) + (narrow ? widen_s : 0) +
         (compresses ? kPowersgdPasses * widen_s : 0);
}

}  // namespace

RunTime run_time(const Setting& setting, const ParallelPlan& plan, double flat_elements) {
  const KernelTable table(operator_points(setting));
  const config::Dtype type = setting.config.precision.compute;
  OperatorSum operators(table, type, static_cast<double>(plan.batch.micro_batch));
  for (std::size_t i = 0; i < setting.model.blocks.size(); ++i) {
    operators.add(setting.model.blocks[i], /*reads_data=*/i == 0);
  }
  const double factor = core_factor(setting);
  const auto leaves = static_cast<double>(plan.batch.leaves_per_rank());
  const Surroundings around = surroundings(setting, table, parameter_count(setting.model), factor);
  const double around_s = around.step_s + around.micro_batch_s * leaves;
  const double sums_s = own_sums_s(setting, plan, table, flat_elements);
  RunTime time;
  time.forward_s = operators.forward_s() * leaves * factor + kForwardShare * around_s;
  time.backward_s =
      (operators.backward_s() * leaves + sums_s) * factor + (1 - kForwardShare) * around_s;
  time.optimizer_s =
      factor *
      (table.seconds(update_kernel(setting.config.optimizer), type, flat_elements).forward_s +
       table.seconds(Kernel::norm, config::Dtype::fp32, flat_elements).forward_s);
  return time;
}

double exchange_time(const Setting& setting, double bytes) {
  return exchange_seconds(setting.host.rates(), setting.world_size, setting.host.cores, bytes);
}

}  // namespace lockstep::parallel
