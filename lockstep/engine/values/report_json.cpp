#include "lockstep/engine/values/report_json.h"

#include <cmath>
#include <limits>

#include "lockstep/engine/values/phase_rows.h"

namespace lockstep::engine {

using nlohmann::ordered_json;

namespace {

/// Times travelled as fp32: more digits say nothing.
double rounded(double seconds) { return std::round(seconds * 1e7) / 1e7; }

}  // namespace

void put_columns(JsonLine& line, const std::vector<PhaseTimes>& ranks) {
  const auto add = [&](const char* key, auto number) {
    line.key(key).open_array();
    for (const PhaseTimes& times : ranks) line.value(rounded(number(times)));
    line.close_array();
  };
  const auto step_s = [](const PhaseTimes& t) { return t.step_s; };
  const auto sync_s = [](const PhaseTimes& t) { return t.sync_s; };
  line.open_object();
  add("step_s", step_s);
  for (const PhaseRow& row : kPhaseRows) {
    add(row.key, [&](const PhaseTimes& t) { return t.*row.seconds; });
  }
  add("compute_s", [&](const PhaseTimes& t) { return rounded(step_s(t)) - rounded(sync_s(t)); });
  add("wait_s", sync_s);
  line.close_object();
}

ordered_json to_columns(const std::vector<PhaseTimes>& ranks) {
  JsonLine line;
  put_columns(line, ranks);
  return ordered_json::parse(line.take());
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

ordered_json to_json(const GradientCheckReport& check) {
  ordered_json json{{"worst_relative", check.worst_relative},
                    {"parameter", check.parameter},
                    {"tolerance", check.tolerance},
                    {"passed", check.passed},
                    {"parts", check.parts},
                    {"cut_for", check.cut_for}};
  if (check.micro_batches_relative) json["micro_batches_relative"] = *check.micro_batches_relative;
  json["check_s"] = check.check_s;
  return json;
}

GradientCheckReport gradient_check_from(const JsonFields& fields) {
  GradientCheckReport check;
  check.worst_relative = fields.number("worst_relative");
  check.parameter = fields.text("parameter");
  check.tolerance = fields.number("tolerance");
  check.passed = fields.flag_or("passed", true);
  check.parts = fields.integer("parts");
  check.cut_for = fields.text("cut_for");
  if (fields.has("micro_batches_relative")) {
    check.micro_batches_relative = fields.number("micro_batches_relative");
  }
  check.check_s = fields.number("check_s");
  return check;
}

ordered_json to_json(const parallel::ParameterUse& use) {
  ordered_json partly = ordered_json::array();
  for (const parallel::PartlyUsed& parameter : use.partly) {
    partly.push_back({{"name", parameter.name}, {"ranks", parameter.ranks}});
  }
  return {{"never", use.never}, {"partly", partly}};
}

parallel::ParameterUse parameter_use_from(const JsonFields& fields) {
  parallel::ParameterUse use;
  use.never = fields.texts("never");
  for (const JsonFields& parameter : fields.objects("partly")) {
    parallel::PartlyUsed used{parameter.text("name"), {}};
    for (const std::int64_t rank : parameter.integers("ranks")) {
      if (rank < 0 || rank > std::numeric_limits<int>::max()) parameter.fail("has no such rank");
      used.ranks.push_back(static_cast<int>(rank));
    }
    use.partly.push_back(std::move(used));
  }
  return use;
}

ordered_json to_json(const Straggler& straggler) {
  return {{"rank", straggler.rank},
          {"phase", straggler.phase},
          {"slower_s", straggler.slower_s},
          {"share", straggler.share()},
          {"others_wait_s", straggler.others_wait_s}};
}

}  // namespace lockstep::engine
