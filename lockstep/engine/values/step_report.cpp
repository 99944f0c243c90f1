#include "lockstep/engine/values/step_report.h"

#include <cmath>
#include <string_view>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/json_line.h"
#include "lockstep/engine/values/phase_rows.h"
#include "lockstep/engine/values/report_json.h"

namespace lockstep::engine {
namespace {

using nlohmann::ordered_json;

JsonSource a_line() { return {"LS-7051", "a line of events.jsonl"}; }

void put_times(JsonLine& line, const PhaseTimes& times) {
  line.member("step_s", times.step_s);
  for (const PhaseRow& row : kPhaseRows) line.member(row.key, times.*row.seconds);
}

PhaseTimes get_times(const JsonFields& fields) {
  PhaseTimes times;
  times.step_s = fields.number("step_s");
  for (const PhaseRow& row : kPhaseRows) times.*row.seconds = fields.number(row.key);
  return times;
}

/// Whole microseconds: a line has as many of these as there are buckets.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

void put_buckets(JsonLine& line, const std::vector<BucketReport>& buckets) {
  line.key("buckets").open_array();
  for (const BucketReport& bucket : buckets) {
    line.open_object().member("name", std::string_view(bucket.name)).member("bytes", bucket.bytes);
    line.member("ready_s", rounded(bucket.ready_s)).member("issued_s", rounded(bucket.issued_s));
    line.member("done_s", rounded(bucket.done_s)).member("wait_s", rounded(bucket.wait_s));
    line.close_object();
  }
  line.close_array();
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

/// A skipped step, the scale of the loss, and what is to be said about them.
void put_trouble(JsonLine& line, const StepReport& report) {
  if (report.skipped) line.member("skipped", true);
  if (report.loss_scale) line.member("loss_scale", *report.loss_scale);
  if (report.not_finite) {
    line.key("not_finite").open_object();
    line.member("rank", std::int64_t{report.not_finite->rank});
    line.member("where", std::string_view(report.not_finite->where)).close_object();
  }
  if (!report.warning.empty()) line.member("warning", std::string_view(report.warning));
}

}  // namespace

std::string to_json_text(const StepReport& report) {
  JsonLine line;
  line.open_object().member("step", report.step).member("total_steps", report.total_steps);
  line.member("epoch", report.epoch).member("loss", report.loss).member("lr", report.lr);
  if (report.grad_norm) line.member("grad_norm", *report.grad_norm);
  if (report.tokens > 0) line.member("tokens", report.tokens);
  line.member("samples", report.samples);
  put_times(line, report.times);
  line.member("peak_rss_bytes", report.peak_rss_bytes).member("comm_bytes", report.comm_bytes);
  put_trouble(line, report);
  if (!report.per_rank.empty()) put_columns(line.key("per_rank"), report.per_rank);
  if (!report.buckets.empty()) put_buckets(line, report.buckets);
  if (report.gradient_check)
    line.key("gradient_check").raw(to_line(to_json(*report.gradient_check)));
  if (report.parameter_use) line.key("parameter_use").raw(to_line(to_json(*report.parameter_use)));
  return line.close_object().take();
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
