#include "lockstep/engine/values/step_report.h"

#include <cmath>

#include "lockstep/base/json_fields.h"
#include "lockstep/engine/values/phase_rows.h"
#include "lockstep/engine/values/report_json.h"

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

/// Whole microseconds: a line has as many of these as there are buckets.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

ordered_json to_json(const std::vector<BucketReport>& buckets) {
  ordered_json list = ordered_json::array();
  for (const BucketReport& bucket : buckets) {
    list.push_back({{"name", bucket.name},
                    {"bytes", bucket.bytes},
                    {"ready_s", rounded(bucket.ready_s)},
                    {"issued_s", rounded(bucket.issued_s)},
                    {"done_s", rounded(bucket.done_s)},
                    {"wait_s", rounded(bucket.wait_s)}});
  }
  return list;
}

std::vector<BucketReport> get_buckets(const JsonFields& fields) {
  std::vector<BucketReport> buckets;
  if (!fields.has("buckets")) return buckets;
  for (const JsonFields& bucket : fields.objects("buckets")) {
    buckets.push_back({bucket.text("name"), bucket.integer("bytes"), bucket.number("ready_s"),
                       bucket.number("issued_s"), bucket.number("done_s"),
                       bucket.number("wait_s")});
  }
  return buckets;
}

void read_loss_scale(const JsonFields& fields, StepReport& report) {
  if (fields.has("loss_scale")) report.loss_scale = fields.number("loss_scale");
  if (fields.has("not_finite")) {
    const JsonFields place = fields.object("not_finite");
    report.not_finite = {static_cast<int>(place.integer("rank")), place.text("where")};
  }
  if (fields.has("warning")) report.warning = fields.text("warning");
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
  if (report.loss_scale) line["loss_scale"] = *report.loss_scale;
  if (report.not_finite) {
    line["not_finite"] = {{"rank", report.not_finite->rank}, {"where", report.not_finite->where}};
  }
  if (!report.warning.empty()) line["warning"] = report.warning;
  if (!report.per_rank.empty()) line["per_rank"] = to_columns(report.per_rank);
  if (!report.buckets.empty()) line["buckets"] = to_json(report.buckets);
  if (report.gradient_check) line["gradient_check"] = to_json(*report.gradient_check);
  if (report.parameter_use) line["parameter_use"] = to_json(*report.parameter_use);
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
  read_loss_scale(fields, report);
  if (fields.has("per_rank")) report.per_rank = from_columns(fields.object("per_rank"));
  report.buckets = get_buckets(fields);
  if (fields.has("gradient_check")) {
    report.gradient_check = gradient_check_from(fields.object("gradient_check"));
  }
  if (fields.has("parameter_use")) {
    report.parameter_use = parameter_use_from(fields.object("parameter_use"));
  }
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
