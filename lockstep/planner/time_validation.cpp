#include "lockstep/planner/time_validation.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

namespace lockstep::planner {
namespace {

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  const int length = std::snprintf(text, sizeof text, pattern, values...);
  return {text, static_cast<std::size_t>(std::max(length, 0))};
}

std::string percent(double share) { return format("%.1f %%", 100 * share); }

std::string row_of(const TimedRun& timed, const TimeNumbers& numbers) {
  const double predicted = predicted_s(timed, numbers);
  std::string assumed;
  for (const std::string& assumption : timed.run.assumptions) {
    assumed += (assumed.empty() ? "" : ", ") + assumption;
  }
  return format("| %s | %.4g | %.4g | %+.1f %% | ", timed.run.id.c_str(), timed.measured_s,
                predicted, 100 * (predicted / timed.measured_s - 1)) +
         assumed + " |\n";
}

std::string summary_row(const std::string& name, const ErrorSummary& summary) {
  return "| " + name + " | " + std::to_string(summary.rows) + " | " + percent(summary.mean) +
         " | " + percent(summary.most) + " | " + summary.worst + " |\n";
}

std::map<std::string, std::set<std::string>> sources_by_device(const std::vector<TimedRun>& runs) {
  std::map<std::string, std::set<std::string>> sources;
  for (const TimedRun& timed : runs) sources[timed.run.device].insert(timed.run.source);
  return sources;
}

struct Neighbours {
  std::string_view device;   // how names begin
  std::string_view nearest;  // whose efficiency it gets
};

constexpr Neighbours kNeighbours[] = {{"A100", "H100-80G"}, {"H100", "A100-80G"}};

/// Half of the rate is reached at a size that grows with FLOPs for each byte (device_models.cpp).
void take_efficiency(DeviceModel& device, const DeviceModel& nearest) {
  const auto flops_a_byte = [](const DeviceModel& one) {
    return one.half_flops_per_s / one.memory_bytes_per_s;
  };
  device.most_efficiency = nearest.most_efficiency;
  device.half_size = nearest.half_size * flops_a_byte(device) / flops_a_byte(nearest);
}

std::string perturbed_row(const std::vector<TimedRun>& runs, double factor) {
  const MovedMost moved = perturb_each(runs, factor);
  return format("| x %.2f | %+.1f %% | ", factor, 100 * moved.moved) + moved.id + " |\n";
}

}  // namespace

double error_of(const TimedRun& timed, const TimeNumbers& numbers) {
  return predicted_s(timed, numbers) / timed.measured_s - 1;
}

ErrorSummary summary_of(const std::vector<TimedRun>& runs, const TimeNumbers& numbers) {
  ErrorSummary summary;
  for (const TimedRun& timed : runs) {
    const double error = std::abs(error_of(timed, numbers));
    ++summary.rows;
    summary.mean += error;
    if (error <= summary.most) continue;
    summary.most = error;
    summary.worst = timed.run.id;
  }
  if (summary.rows > 0) summary.mean /= summary.rows;
  return summary;
}

std::vector<LeftOutSource> leave_each_source_out(const std::vector<TimedRun>& runs) {
  const auto sources = sources_by_device(runs);
  std::set<std::string> all;
  for (const TimedRun& timed : runs) all.insert(timed.run.source);
  std::vector<LeftOutSource> results;
  for (const std::string& source : all) {
    std::vector<TimedRun> others;
    std::vector<TimedRun> left_out;
    for (const TimedRun& timed : runs) {
      if (timed.run.source != source) {
        others.push_back(timed);
      } else if (sources.at(timed.run.device).size() > 1) {
        left_out.push_back(timed);
      }
    }
    results.push_back({source, summary_of(left_out, calibrate(others))});
  }
  return results;
}

std::vector<LeftOutSource> leave_each_device_out(const std::vector<TimedRun>& runs) {
  std::vector<LeftOutSource> results;
  for (const Neighbours& pair : kNeighbours) {
    std::vector<TimedRun> others;
    std::vector<TimedRun> left_out;
    for (const TimedRun& timed : runs) {
      (timed.run.device.starts_with(pair.device) ? left_out : others).push_back(timed);
    }
    TimeNumbers numbers = calibrate(others);
    const DeviceModel nearest = numbers.device(pair.nearest);
    for (DeviceModel& device : numbers.devices) {
      if (device.name.starts_with(pair.device)) take_efficiency(device, nearest);
    }
    results.push_back({std::string(pair.device), summary_of(left_out, numbers)});
  }
  return results;
}

MovedMost perturb_each(const std::vector<TimedRun>& runs, double factor) {
  const TimeNumbers numbers = calibrate(runs);
  MovedMost most;
  std::vector<TimedRun> wrong = runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    wrong[i].measured_s = factor * runs[i].measured_s;
    const double moved = predicted_s(runs[i], calibrate(wrong)) / predicted_s(runs[i], numbers) - 1;
    if (std::abs(moved) > std::abs(most.moved)) most = {runs[i].run.id, moved};
    wrong[i].measured_s = runs[i].measured_s;
  }
  return most;
}

std::string time_table(const std::vector<TimedRun>& runs) {
  const TimeNumbers numbers = TimeNumbers::of_tables();
  std::string text = "| run | measured, s a step | predicted | error | assumed |\n";
  text += "|---|---:|---:|---:|---|\n";
  for (const TimedRun& timed : runs) text += row_of(timed, numbers);
  const ErrorSummary all = summary_of(runs, numbers);
  return text + "\n" + std::to_string(all.rows) + " runs: mean error " + percent(all.mean) +
         ", largest " + percent(all.most) + " (" + all.worst + ").\n";
}

std::string time_validation(const std::vector<TimedRun>& runs) {
  std::string text = time_table(runs);
  text += "\nEach source left out of the fit, and predicted from the others:\n\n";
  text += "| source | runs | mean error | largest | of |\n|---|---:|---:|---:|---|\n";
  for (const LeftOutSource& left : leave_each_source_out(runs)) {
    text += summary_row(left.source, left.errors);
  }
  text += "\nEach kind of device left out, and predicted with the efficiency of the other:\n\n";
  text += "| device | runs | mean error | largest | of |\n|---|---:|---:|---:|---|\n";
  for (const LeftOutSource& left : leave_each_device_out(runs)) {
    text += summary_row(left.source, left.errors);
  }
  text +=
      "\nOne run's measurement changed and everything fitted anew: how far its own prediction "
      "moves at most.\n\n| measurement | prediction | of |\n|---|---:|---|\n";
  text += perturbed_row(runs, 1.3) + perturbed_row(runs, 1 / 1.3);
  text += "\n| fitted | value |\n|---|---:|\n";
  for (const auto& [name, value] : fitted_numbers(calibrate(runs))) {
    text += format("| %s | %.3g |\n", name.c_str(), value);
  }
  return text;
}

}  // namespace lockstep::planner
