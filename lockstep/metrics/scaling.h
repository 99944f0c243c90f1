// What more ranks bring: one row a rank count, and the phase that eats the rest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/engine/values/step_report.h"
#include "lockstep/engine/values/straggler.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::metrics {

enum class Scaling : std::uint8_t {
  weak,    // the micro-batch of a rank stays, the global batch grows
  strong,  // the global batch stays
};

/// Steps of one run with `ranks` ranks, warm-up left out.
struct ScalingRun {
  int ranks = 1;
  std::vector<engine::StepReport> reports;
};

struct ScalingRow {
  int ranks = 1;
  double samples_per_s = 0;      // samples of a step / median seconds of a step
  double tokens_per_s = 0;       // 0 unless the model counts tokens
  double speedup = 0;            // of samples_per_s over one rank's (see scaling_rows)
  double efficiency = 0;         // speedup / ranks
  std::string dominating_phase;  // "forward", "exposed sync", ..., "other"
  bool oversubscribed = false;   // more ranks than cores: the speedup says nothing about the code
  engine::PhaseTimes times;      // medians over steps of the mean over ranks
  std::optional<engine::Straggler> slowest;  // rank, by medians over steps; of two ranks and more
};

/// Rows in order of ranks. The speedup of the smallest count is its rank count, that is: it is
/// taken to be perfect, and is 1 when a run with one rank is among them.
///
/// The dominating phase of a row is the one that costs most beyond ideal scaling: its seconds a
/// step less those of the smallest count (weak), or less those times smallest / ranks (strong). In
/// the first row, and where no phase costs more than ideal, it is the longest phase. \param cores
/// of this host. \throws Bug when a run has no reports.
[[nodiscard]] std::vector<ScalingRow> scaling_rows(const std::vector<ScalingRun>& runs,
                                                   Scaling scaling, int cores);

/// {"ranks","samples_per_s","speedup","efficiency","dominating_phase",...} on one line; of two
/// ranks and more also "slowest_rank", by which share it computes longer and what the others wait
/// for it.
[[nodiscard]] std::string to_json_text(const ScalingRow& row);
[[nodiscard]] std::string scaling_csv(const std::vector<ScalingRow>& rows);

/// A drawing that reads on light and dark pages: measured and ideal speedup over ranks.
[[nodiscard]] std::string scaling_svg(const std::vector<ScalingRow>& rows, const std::string& title,
                                      Scaling scaling);

/// The table and the same drawing in characters (dots of 2 x 4 a column, or ASCII).
[[nodiscard]] std::string scaling_text(const std::vector<ScalingRow>& rows, std::size_t width,
                                       const TextStyle& style);

}  // namespace lockstep::metrics
