#include "lockstep/metrics/report_line.h"

#include "lockstep/base/json_fields.h"

namespace lockstep::metrics {
namespace {

struct Writer {
  std::string operator()(const engine::StepReport& report) const {
    return engine::to_json_text(report);
  }
  std::string operator()(const engine::EvalReport& report) const {
    return engine::to_json_text(report);
  }
  std::string operator()(const Note& note) const { return to_line({{"note", note.text}}); }
  std::string operator()(const engine::RunSummary& summary) const {
    return R"({"summary":)" + engine::to_json_text(summary) + "}";
  }
};

}  // namespace

std::string to_json_text(const ReportLine& line) { return std::visit(Writer{}, line); }

ReportLine read_report_line(const std::string& line) {
  const JsonFields fields(line, {"LS-7051", "a report of a rank"});
  if (fields.has("eval")) return engine::eval_report_from_json(line);
  if (fields.has("note")) return Note{fields.text("note")};
  if (fields.has("summary")) {
    return engine::summary_from_json_text(fields.object("summary").to_text());
  }
  return engine::step_report_from_json(line);
}

}  // namespace lockstep::metrics
