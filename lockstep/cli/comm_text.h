// Timed collectives as a person reads them: a table and a plot.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/bench/rows.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::cli {

/// \param rows of one collective and rank count, in order of bytes; at least one.
[[nodiscard]] std::string comm_table(const std::vector<bench::Row>& rows,
                                     const metrics::TextStyle& style);

/// Bus bandwidth over bytes, of both sides where there are two; empty when there is no curve: fewer
/// than two sizes, or nothing that moves.
[[nodiscard]] std::string comm_plot(const std::vector<bench::Row>& rows, std::size_t width,
                                    const metrics::TextStyle& style);

/// "near: a core hands 256 KiB to another in 24.5 us".
[[nodiscard]] std::string regime_text(double probe_us);

/// "4 B", "16 KiB": binary, as --sizes takes them.
[[nodiscard]] std::string size_text(std::int64_t bytes);

}  // namespace lockstep::cli
