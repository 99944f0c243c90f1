#include "lockstep/engine/values/step_report.h"

#include "lockstep/base/json_fields.h"
#include "lockstep/engine/values/phase_rows.h"

namespace lockstep::engine {
namespace {

using nlohmann::ordered_json;

JsonSource a_line() { return {"LS-7051", "a line of events.jsonl"}; }

void put_times(ordered_json& object, const PhaseTimes& times) {
  object["step_s"] = times.step_s;
  for (const PhaseRow& row : kPhaseRows) object[row.key] = times.*row.seconds;
}

PhaseTimes get_times(const JsonFields& fields) {
  PhaseTimes times;
  times.step_s = fields.number("step_s");
  for (const PhaseRow& row : kPhaseRows) times.*row.seconds = fields.number(row.key);
  return times;
}

// Columns: one array a phase with one number a rank.
ordered_json to_columns(const std::vector<PhaseTimes>& ranks) {
  ordered_json columns = ordered_json::object();
  columns["step_s"] = ordered_json::array();
  for (const PhaseRow& row : kPhaseRows) columns[row.key] = ordered_json::array();
  for (const PhaseTimes& times : ranks) {
    columns["step_s"].push_back(times.step_s);
    for (const PhaseRow& row : kPhaseRows) columns[row.key].push_back(times.*row.seconds);
  }
  return columns;
}

std::vector<PhaseTimes> from_columns(const JsonFields& columns) {
  const std::vector<double> step_s = columns.numbers("step_s");
  std::vector<PhaseTimes> ranks(step_s.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].step_s = step_s[i];
  for (const PhaseRow& row : kPhaseRows) {
    const std::vector<double> seconds = columns.numbers(row.key);
    if (seconds.size() != ranks.size()) columns.fail("per_rank has columns of unequal length");
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].*row.seconds = seconds[i];
  }
  return ranks;
}

}  // namespace

std::string to_json_text(const StepReport& report) {
  ordered_json line{{"step", report.step},
                    {"total_steps", report.total_steps},
                    {"epoch", report.epoch},
                    {"loss", report.loss},
                    {"lr", report.lr}};
  if (report.grad_norm) line["grad_norm"] = *report.grad_norm;
  if (report.tokens > 0) line["tokens"] = report.tokens;
  line["samples"] = report.samples;
  put_times(line, report.times);
  line["peak_rss_bytes"] = report.peak_rss_bytes;
  line["comm_bytes"] = report.comm_bytes;
  if (report.skipped) line["skipped"] = true;
  if (!report.per_rank.empty()) line["per_rank"] = to_columns(report.per_rank);
  return to_line(line);
}

StepReport step_report_from_json(const std::string& line) {
  const JsonFields fields(line, a_line());
  StepReport report;
  report.step = fields.integer("step");
  report.total_steps = fields.integer_or("total_steps", 0);
  report.epoch = fields.number("epoch");
  report.loss = fields.number("loss");
  report.lr = fields.number("lr");
  if (fields.has("grad_norm")) report.grad_norm = fields.number("grad_norm");
  report.tokens = fields.integer_or("tokens", 0);
  report.samples = fields.integer_or("samples", 0);
  report.times = get_times(fields);
  report.peak_rss_bytes = fields.integer("peak_rss_bytes");
  report.comm_bytes = fields.integer("comm_bytes");
  report.skipped = fields.flag_or("skipped", false);
  if (fields.has("per_rank")) report.per_rank = from_columns(fields.object("per_rank"));
  return report;
}

std::string to_json_text(const EvalReport& report) {
  ordered_json eval{{"step", report.step}, {"loss", report.loss}, {"accuracy", report.accuracy}};
  if (report.bits_per_byte) eval["bits_per_byte"] = *report.bits_per_byte;
  eval["weight"] = report.weight;
  eval["eval_s"] = report.eval_s;
  return to_line(ordered_json{{"eval", eval}});
}

EvalReport eval_report_from_json(const std::string& line) {
  const JsonFields fields = JsonFields(line, a_line()).object("eval");
  EvalReport report;
  report.step = fields.integer("step");
  report.loss = fields.number("loss");
  report.accuracy = fields.number("accuracy");
  if (fields.has("bits_per_byte")) report.bits_per_byte = fields.number("bits_per_byte");
  report.weight = fields.integer("weight");
  report.eval_s = fields.number("eval_s");
  return report;
}

}  // namespace lockstep::engine
