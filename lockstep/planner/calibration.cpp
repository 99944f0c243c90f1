#include "lockstep/planner/calibration.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/planner/robust_fit.h"

namespace lockstep::planner {
namespace {

using parallel::SoftwareStack;
using parallel::StackConstant;

constexpr int kLeastRunsOfAStack = 3;

/// One number that a fit moves: where it begins and how far, as a factor's logarithm, it may be
/// believed to lie from there.
struct Knob {
  std::string name;
  double start = 1;
  double deviation = 0.05;
  std::function<void(TimeNumbers&, double)> set;
  std::function<double(const TimeNumbers&)> get;
};

DeviceModel& device_of(TimeNumbers& numbers, std::string_view name) {
  return *std::find_if(numbers.devices.begin(), numbers.devices.end(),
                       [&](const DeviceModel& device) { return device.name == name; });
}

Knob efficiency(std::string name, std::vector<std::string_view> devices, double start,
                double deviation) {
  const std::string_view first = devices.front();
  return {std::move(name), start, deviation,
          [devices](TimeNumbers& numbers, double value) {
            for (const auto device : devices) device_of(numbers, device).most_efficiency = value;
          },
          [first](const TimeNumbers& numbers) { return numbers.device(first).most_efficiency; }};
}

/// The slower memory is, the larger a product must be: the others follow the first by bandwidth.
Knob half_size(std::string name, std::vector<std::string_view> devices, double start,
               double deviation) {
  const std::string_view first = devices.front();
  return {std::move(name), start, deviation,
          [devices](TimeNumbers& numbers, double value) {
            const double bandwidth = device_of(numbers, devices.front()).memory_bytes_per_s;
            for (const auto name : devices) {
              DeviceModel& device = device_of(numbers, name);
              device.half_size = value * bandwidth / device.memory_bytes_per_s;
            }
          },
          [first](const TimeNumbers& numbers) { return numbers.device(first).half_size; }};
}

Knob plain(std::string name, double start, double deviation, double TimeNumbers::*place) {
  return {std::move(name), start, deviation,
          [place](TimeNumbers& numbers, double value) { numbers.*place = value; },
          [place](const TimeNumbers& numbers) { return numbers.*place; }};
}

Knob constant_of(const SoftwareStack& stack) {
  // On Fugaku a stage hands over by blocking transfers, four after each other where others have two
  // at once, each copied into and out of MPI's buffers: three times as long, twice as many. The
  // other constants are 1 where nothing is known.
  const bool far = stack.kind == StackConstant::hand_over;
  const double deviation = stack.kind == StackConstant::gather_rate ? 0.02 : 0.05;
  const std::string_view name = stack.name;
  return {std::string(name), far ? 6.0 : 1.0, far ? 0.3 : deviation,
          [name](TimeNumbers& numbers, double value) {
            for (SoftwareStack& candidate : numbers.stacks) {
              if (candidate.name == name) candidate.constant = value;
            }
          },
          [name](const TimeNumbers& numbers) { return numbers.stack(name).constant; }};
}

/// Where the numbers begin: NVIDIA's library reaches 0.75 to 0.82 of an A100 in large products and
/// half of that at a size of some 110 (Azure/AI-benchmarking-guide, ND A100 v4), and less of an
/// H100, whose power is limited. Nothing is known of an A64FX beforehand.
std::vector<Knob> knobs() {
  std::vector<Knob> all{
      efficiency("A100 most_efficiency", {"A100-80G", "A100-40G"}, 0.75, 0.1),
      half_size("A100-80G half_size", {"A100-80G", "A100-40G"}, 110, 0.3),
      efficiency("H100 most_efficiency", {"H100-80G", "H200-141G"}, 0.65, 0.1),
      half_size("H100 half_size", {"H100-80G", "H200-141G"}, 190, 0.3),
      efficiency("A64FX most_efficiency", {"A64FX"}, 0.25, 1),
      half_size("A64FX half_size", {"A64FX"}, 175, 1),
      plain("Tofu-D efficiency", 0.7, 0.1, &TimeNumbers::tofu_efficiency),
      plain("network efficiency", 0.65, 0.05, &TimeNumbers::network_efficiency),
      {"gather cost", 0.4, 0.1,
       [](TimeNumbers& numbers, double value) { numbers.constants.gather_cost = value; },
       [](const TimeNumbers& numbers) { return numbers.constants.gather_cost; }},
  };
  for (const SoftwareStack& stack : parallel::software_stacks()) {
    if (stack.kind != StackConstant::none) all.push_back(constant_of(stack));
  }
  return all;
}

bool has_enough_runs(const Knob& knob, const std::vector<TimedRun>& runs) {
  if (parallel::find_stack(knob.name) == nullptr) return true;
  return std::count_if(runs.begin(), runs.end(), [&](const TimedRun& timed) {
           return timed.run.stack->name == knob.name;
         }) >= kLeastRunsOfAStack;
}

}  // namespace

TimeNumbers TimeNumbers::of_tables() {
  const auto devices = device_models();
  const auto stacks = parallel::software_stacks();
  TimeNumbers numbers;
  numbers.devices.assign(devices.begin(), devices.end());
  numbers.stacks.assign(stacks.begin(), stacks.end());
  numbers.network_efficiency = find_link("HDR InfiniBand")->efficiency;
  numbers.tofu_efficiency = find_link("Tofu-D")->efficiency;
  return numbers;
}

const DeviceModel& TimeNumbers::device(std::string_view name) const {
  return *std::find_if(devices.begin(), devices.end(),
                       [&](const DeviceModel& candidate) { return candidate.name == name; });
}

const SoftwareStack& TimeNumbers::stack(std::string_view name) const {
  return *std::find_if(stacks.begin(), stacks.end(),
                       [&](const SoftwareStack& candidate) { return candidate.name == name; });
}

std::vector<TimedRun> timed_runs(const std::vector<PublishedRow>& rows) {
  std::vector<TimedRun> timed;
  for (const PublishedRow& row : rows) {
    PublishedRun run = plan_of(row);
    const double seconds = measured_step_s(row, run);
    if (!(seconds > 0) || is_unpredictable(row)) continue;
    auto stats = std::make_shared<const model::ModelStats>(
        model::architecture_stats(run.architecture, run.sequence));
    timed.push_back({std::move(run), seconds, stats, parallel::block_runs(*stats)});
  }
  return timed;
}

double predicted_s(const TimedRun& timed, const TimeNumbers& numbers) {
  const PublishedRun& run = timed.run;
  Machine machine = run.machine;
  machine.device = numbers.device(machine.device.name);
  const bool tofu = machine.between.name == "Tofu-D";
  machine.between.efficiency = tofu ? numbers.tofu_efficiency : numbers.network_efficiency;
  if (tofu) machine.inside.efficiency = numbers.tofu_efficiency;
  return parallel::time_parts(timed.runs, run.layout, *run.recipe, machine,
                              numbers.stack(run.stack->name), numbers.constants)
      .step_s;
}

TimeNumbers calibrate(const std::vector<TimedRun>& runs) {
  TimeNumbers numbers = TimeNumbers::of_tables();
  std::vector<Knob> moved;
  std::vector<FitPrior> priors;
  for (Knob& knob : knobs()) {
    knob.set(numbers, knob.start);
    if (!has_enough_runs(knob, runs)) continue;
    priors.push_back({std::log(knob.start), knob.deviation});
    moved.push_back(std::move(knob));
  }
  const auto apply = [&](const std::vector<double>& logarithms) {
    TimeNumbers at = numbers;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i].set(at, std::exp(logarithms[i]));
    return at;
  };
  const std::vector<double> best = robust_fit(priors, [&](const std::vector<double>& logarithms) {
    const TimeNumbers at = apply(logarithms);
    std::vector<double> errors;
    errors.reserve(runs.size());
    for (const TimedRun& timed : runs) {
      errors.push_back(std::log(predicted_s(timed, at) / timed.measured_s));
    }
    return errors;
  });
  return apply(best);
}

std::vector<std::pair<std::string, double>> fitted_numbers(const TimeNumbers& numbers) {
  std::vector<std::pair<std::string, double>> values;
  for (const Knob& knob : knobs()) values.emplace_back(knob.name, knob.get(numbers));
  return values;
}

}  // namespace lockstep::planner
