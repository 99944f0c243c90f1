// How much memory the data sets of a run will hold, told from headers and file sizes: for the plan.
#pragma once
#include <cstdint>

#include "lockstep/config/run_config.h"

namespace lockstep::data {

/// Bytes that the data sets of [data] keep resident in each rank. Reads no data, runs no program:
/// what a command prints, a compressed text and what cannot be opened count 0.
[[nodiscard]] std::int64_t resident_bytes(const config::DataSection& data);

}  // namespace lockstep::data
