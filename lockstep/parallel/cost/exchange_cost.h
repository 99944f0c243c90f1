// The torch-free half of the ways to exchange gradients: which one a run takes and what it costs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config/run_config.h"

namespace lockstep::parallel {

/// A parameter as an exchange sees it.
struct ExchangedParameter {
  std::vector<std::int64_t> shape;
  std::int64_t padded = 0;  // elements it takes in its bucket
  bool in_last = false;     // bucket, which carries the control numbers
};

struct ExchangeBytes {
  std::int64_t sent = 0;    // handed to collectives by one rank in a step
  std::int64_t staged = 0;  // kept for what is on its way, and to begin the next step's with
  std::int64_t errors = 0;  // kept of what was left out
};

struct ExchangeCost {
  std::string_view name;  // as ParallelPlan::exchange; a row of parallel/exchange/registry.cpp
  ExchangeBytes (*bytes)(const ExchangedParameter& parameter, std::int64_t powersgd_rank);
  bool stages_control = false;  // the control numbers behind the last bucket too
};

/// \pre there is such a row.
[[nodiscard]] const ExchangeCost& exchange_cost(std::string_view name);
/// What a configuration asks for.
[[nodiscard]] std::string exchange_name(const config::RunConfig& config);

}  // namespace lockstep::parallel
