// The one line that is redrawn while a run trains, fitted to the width of the terminal.
#pragma once
#include <string>

#include "lockstep/engine/values/step_report.h"
#include "lockstep/metrics/progress.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::metrics {

/// "37% ▕███▍    ▏ 740/2000  epoch 0.74  loss 0.4123 ▇▅▃▂▁  lr 0.0812  1.28k samples/s  ETA 1:12".
/// What does not fit in `width` - 1 columns is left out, the least needed first: lr, epoch, curve,
/// rate.
[[nodiscard]] std::string live_line(const engine::StepReport& report, const Progress& progress,
                                    std::size_t width, const TextStyle& style);

/// The same facts for a log file, without bar and curve; steps aligned.
[[nodiscard]] std::string plain_line(const engine::StepReport& report, const Progress& progress,
                                     const TextStyle& style);

}  // namespace lockstep::metrics
