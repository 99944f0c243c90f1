// What PowerSGD compresses, how much and from when: those that send and those that plan ask here.
#pragma once
#include <cstdint>

#include "lockstep/config/run_config.h"

namespace lockstep::parallel {

/// r = min(wanted, rows, columns) where r (rows + columns) numbers are fewer than the matrix has;
/// else 0: it travels whole.
[[nodiscard]] std::int64_t powersgd_rank(std::int64_t wanted, std::int64_t rows,
                                         std::int64_t columns);

/// Updates made before the first step that is compressed.
[[nodiscard]] std::int64_t powersgd_from(const config::RunConfig& config);

}  // namespace lockstep::parallel
