// The lines a printing rank writes to LOCKSTEP_REPORT_FD and the front draws: one JSON object each.
#pragma once
#include <string>
#include <variant>

#include "lockstep/engine/values/run_summary.h"
#include "lockstep/engine/values/step_report.h"

namespace lockstep::metrics {

/// A sentence for people: "checkpoint saved at step 200".
struct Note {
  std::string text;
};

using ReportLine = std::variant<engine::StepReport, engine::EvalReport, Note, engine::RunSummary>;

/// {"step":...}, {"eval":{...}}, {"note":"..."} or {"summary":{...}}, without the line end.
[[nodiscard]] std::string to_json_text(const ReportLine& line);
/// \throws BadData when it is none of them.
[[nodiscard]] ReportLine read_report_line(const std::string& line);

}  // namespace lockstep::metrics
