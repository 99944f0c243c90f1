// The end of a run on one screen: the result, where the time went, and the plan against
// measurement.
#pragma once
#include <string>

#include "lockstep/engine/values/run_summary.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::metrics {

/// At most 78 columns wide.
[[nodiscard]] std::string summary_text(const engine::RunSummary& summary, std::size_t width,
                                       const TextStyle& style);

/// The same in one line, for --quiet.
[[nodiscard]] std::string summary_line(const engine::RunSummary& summary, const TextStyle& style);

/// "0.2104"; of a run that diverges "7.33e+19".
[[nodiscard]] std::string loss_number(double loss);

/// "accuracy 92.87 %, loss 0.2104" or "1.875 bits per byte, loss 1.300".
[[nodiscard]] std::string eval_result(const engine::EvalReport& eval);

}  // namespace lockstep::metrics
