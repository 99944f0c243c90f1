#include "lockstep/parallel/cost/run_time.h"

#include <algorithm>

#include "lockstep/parallel/cost/measured_operators.h"
#include "lockstep/parallel/cost/rates.h"
#include "lockstep/topology/reference_model.h"

namespace lockstep::parallel {
namespace {

constexpr double kParametersOfALayer = 2;
/// PowerSGD: two products with few columns, the rows made orthogonal, what was left out added and
/// kept: so often is each element read and written.
constexpr double kPowersgdPasses = 8;
constexpr double kForwardShare = 1.0 / 3;  // of what surrounds the operators

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

/// What an optimizer does to all parameters at once.
double update_s(const Setting& setting, const KernelTable& table, double flat) {
  return table
             .seconds(update_kernel(setting.config.optimizer), setting.config.precision.compute,
                      flat)
             .forward_s +
         table.seconds(Kernel::norm, config::Dtype::fp32, flat).forward_s;
}

// Beyond these it is no longer the machine.
constexpr double kLeastInside = 0.7;
constexpr double kMostInside = 1.6;

/// How many times as long operators take inside a step as by themselves: a whole step that was
/// measured of a model of the same kind, over what its operators make of it. 1 where none was.
double inside_a_step(const Setting& setting, const KernelTable& table) {
  const bool is_of_images = setting.model.family == "resnet";
  const Kernel kernel = is_of_images ? Kernel::resnet_step : Kernel::gpt_step;
  const int busy = std::min(setting.world_size, std::max(1, setting.host.cores));
  const KernelPoints* points = points_of(setting.host.rates(), kernel, busy, setting.host.cores);
  if (points == nullptr) return 1;
  const config::Dtype type = setting.config.precision.compute;
  const double measured = KernelTable(points->points).seconds(kernel, type, 1).forward_s;
  const config::RunConfig config = reference_config(kernel, type);
  const model::ModelStats model = model::model_stats(config.model, config.data.seq_len);
  const Setting alone{config, model, setting.host};
  const auto samples = static_cast<double>(*config.batch.micro_batch);
  const KernelSeconds operators = operator_seconds(table, type, model, samples);
  const Surroundings around = surroundings(alone, table, parameter_count(model), 1);
  const double of_operators = operators.forward_s + operators.backward_s +
                              update_s(alone, table, static_cast<double>(model.parameters()));
  if (of_operators <= 0) return 1;
  return std::clamp((measured - around.step_s - around.micro_batch_s) / of_operators, kLeastInside,
                    kMostInside);
}

}  // namespace

RunTime run_time(const Setting& setting, const ParallelPlan& plan, double flat_elements) {
  const KernelTable table(operator_points(setting));
  const KernelSeconds operators =
      operator_seconds(table, setting.config.precision.compute, setting.model,
                       static_cast<double>(plan.batch.micro_batch));
  const double factor = core_factor(setting) * inside_a_step(setting, table);
  const auto leaves = static_cast<double>(plan.batch.leaves_per_rank());
  const Surroundings around =
      surroundings(setting, table, parameter_count(setting.model), core_factor(setting));
  const double around_s = around.step_s + around.micro_batch_s * leaves;
  const double sums_s = own_sums_s(setting, plan, table, flat_elements);
  RunTime time;
  time.forward_s = operators.forward_s * leaves * factor + kForwardShare * around_s;
  time.backward_s =
      (operators.backward_s * leaves + sums_s) * factor + (1 - kForwardShare) * around_s;
  time.optimizer_s = factor * update_s(setting, table, flat_elements);
  return time;
}

double exchange_time(const Setting& setting, double bytes) {
  return exchange_seconds(setting.host.rates(), setting.world_size, setting.host.cores, bytes);
}

}  // namespace lockstep::parallel
