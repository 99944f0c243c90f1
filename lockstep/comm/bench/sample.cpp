#include "lockstep/comm/bench/sample.h"

#include <algorithm>
#include <limits>

#include "lockstep/base/json_fields.h"

namespace lockstep::bench {
namespace {

int round_of(const JsonFields& fields) {
  const std::int64_t round = fields.integer("round");
  if (round < 1 || round > std::numeric_limits<int>::max()) fields.fail("round is out of range");
  return static_cast<int>(round);
}

bool is_theirs(const JsonFields& fields) {
  const std::string side = fields.text("side");
  if (side != "ours" && side != "theirs") fields.fail("side is neither ours nor theirs");
  return side == "theirs";
}

const char* side_of(bool is_theirs) { return is_theirs ? "theirs" : "ours"; }

Sample read_sample(const JsonFields& fields) {
  Sample sample;
  sample.is_theirs = is_theirs(fields);
  const auto op = find_collective(fields.text("op"));
  if (!op) fields.fail("op is no collective");
  sample.op = *op;
  sample.bytes = fields.integer("bytes");
  sample.round = round_of(fields);
  const JsonFields times = fields.object("time_us");
  sample.time_us = {times.number("min"), times.number("median"), times.number("max")};
  sample.slowest_us = fields.number("slowest_us");
  return sample;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, median_of(values), *most};
}

std::string to_json_text(const Report& report) {
  nlohmann::ordered_json json;
  if (const auto* probe = std::get_if<Probe>(&report)) {
    json["side"] = side_of(probe->is_theirs);
    json["round"] = probe->round;
    json["probe_us"] = probe->handover_us;
    return to_line(json);
  }
  const auto& sample = std::get<Sample>(report);
  json["side"] = side_of(sample.is_theirs);
  json["op"] = name_of(sample.op);
  json["bytes"] = sample.bytes;
  json["round"] = sample.round;
  json["time_us"] = {
      {"min", sample.time_us.min}, {"median", sample.time_us.median}, {"max", sample.time_us.max}};
  json["slowest_us"] = sample.slowest_us;
  return to_line(json);
}

Report read_report(const std::string& line) {
  const JsonFields fields(line, {"LS-7055", "a line of a benchmark's ranks"});
  if (fields.has("probe_us"))
    return Probe{is_theirs(fields), round_of(fields), fields.number("probe_us")};
  return read_sample(fields);
}

}  // namespace lockstep::bench
