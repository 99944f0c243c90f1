#include "lockstep/comm/bench/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/json_fields.h"
#include "lockstep/comm/bench/regime.h"

namespace lockstep::bench {
namespace {

constexpr const char* kMixed = "mixed";

struct Key {
  Collective op;
  std::int64_t bytes;
  friend bool operator==(const Key&, const Key&) = default;
};

std::vector<Key> keys_of(const std::vector<Sample>& samples) {
  std::vector<Key> keys;
  for (const Sample& sample : samples) {
    const Key key{sample.op, sample.bytes};
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

/// The rounds of one side at one size, in order.
std::vector<Sample> rounds_of(const Measured& measured, const Key& key, bool is_theirs) {
  std::vector<Sample> rounds;
  for (const Sample& sample : measured.samples) {
    if (Key{sample.op, sample.bytes} == key && sample.is_theirs == is_theirs) {
      rounds.push_back(sample);
    }
  }
  std::stable_sort(rounds.begin(), rounds.end(),
                   [](const Sample& a, const Sample& b) { return a.round < b.round; });
  return rounds;
}

double probe_of(const Measured& measured, int round, bool is_theirs) {
  for (const Probe& probe : measured.probes) {
    if (probe.round == round && probe.is_theirs == is_theirs) return probe.handover_us;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

template <class Value>
double median_over(const std::vector<Sample>& rounds, Value value) {
  std::vector<double> values;
  std::transform(rounds.begin(), rounds.end(), std::back_inserter(values), value);
  return median_of(std::move(values));
}

Spread spread_over(const std::vector<Sample>& rounds) {
  Spread all{rounds.front().time_us.min, 0, 0};
  for (const Sample& round : rounds) {
    all.min = std::min(all.min, round.time_us.min);
    all.max = std::max(all.max, round.time_us.max);
  }
  all.median = median_over(rounds, [](const Sample& round) { return round.time_us.median; });
  return all;
}

std::string regime_over(const std::vector<RoundRow>& rounds) {
  const bool same = std::all_of(rounds.begin(), rounds.end(), [&](const RoundRow& round) {
    return round.regime == rounds.front().regime;
  });
  return same ? rounds.front().regime : kMixed;
}

Row row_of(const Measured& measured, const std::vector<Sample>& rounds) {
  Row row;
  row.op = rounds.front().op;
  row.backend = rounds.front().is_theirs ? measured.against : measured.backend;
  row.symmetric = measured.symmetric && !rounds.front().is_theirs;
  row.ranks = measured.ranks;
  row.crowded = measured.crowded;
  row.bytes = rounds.front().bytes;
  row.time_us = spread_over(rounds);
  row.slowest_us = median_over(rounds, [](const Sample& round) { return round.slowest_us; });
  if (row.time_us.median > 0) {
    row.algbw_gbs = static_cast<double>(row.bytes) / row.time_us.median / 1e3;
  }
  row.busbw_gbs = row.algbw_gbs * bus_factor(row.op, row.ranks);
  for (const Sample& round : rounds) {
    const double probe_us = probe_of(measured, round.round, round.is_theirs);
    row.rounds.push_back({std::string(regime_of(probe_us)), probe_us, round.time_us.median, 0});
  }
  row.regime = regime_over(row.rounds);
  return row;
}

void compare(Row& row, const Row& theirs) {
  LOCKSTEP_CHECK(row.rounds.size() == theirs.rounds.size(), "the two sides ran other rounds");
  row.against = theirs.backend;
  row.against_time_us = theirs.time_us;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.rounds.size(); ++i) {
    RoundRow& round = row.rounds[i];
    round.against_us = theirs.rounds[i].median_us;
    round.against_probe_us = theirs.rounds[i].probe_us;
    if (theirs.rounds[i].regime != round.regime) round.regime = kMixed;
    if (round.against_us > 0) ratios.push_back(round.median_us / round.against_us);
  }
  row.regime = regime_over(row.rounds);
  row.ratio = median_of(std::move(ratios));
}

/// Nanoseconds are as fine as the clock; more digits would only look exact.
double rounded(double value) {
  return std::isfinite(value) ? std::round(value * 1e3) / 1e3 : value;
}

/// Four digits, where three decimals would leave none.
double four_digits(double value) {
  if (!(value > 0)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"min", rounded(spread.min)},
          {"median", rounded(spread.median)},
          {"max", rounded(spread.max)}};
}

nlohmann::ordered_json to_json(const RoundRow& round) {
  nlohmann::ordered_json json{{"regime", round.regime},
                              {"probe_us", rounded(round.probe_us)},
                              {"median_us", rounded(round.median_us)}};
  if (round.against_us > 0) {
    json["against_median_us"] = rounded(round.against_us);
    json["against_probe_us"] = rounded(round.against_probe_us);
    json["ratio"] = four_digits(round.median_us / round.against_us);
  }
  return json;
}

}  // namespace

Rows rows_of(const Measured& measured) {
  Rows rows;
  for (const Key& key : keys_of(measured.samples)) {
    const std::vector<Sample> ours = rounds_of(measured, key, false);
    LOCKSTEP_CHECK(!ours.empty(), "a size that only the other side has timed");
    rows.ours.push_back(row_of(measured, ours));
    if (measured.against.empty()) continue;
    const std::vector<Sample> theirs = rounds_of(measured, key, true);
    LOCKSTEP_CHECK(!theirs.empty(), "a size that the other side has not timed");
    rows.theirs.push_back(row_of(measured, theirs));
    compare(rows.ours.back(), rows.theirs.back());
  }
  return rows;
}

std::string to_json_text(const Row& row) {
  nlohmann::ordered_json json;
  json["op"] = name_of(row.op);
  json["backend"] = row.backend;
  json["symmetric"] = row.symmetric;
  json["ranks"] = row.ranks;
  json["bytes"] = row.bytes;
  json["time_us"] = to_json(row.time_us);
  json["algbw_gbs"] = four_digits(row.algbw_gbs);
  json["busbw_gbs"] = four_digits(row.busbw_gbs);
  json["slowest_us"] = rounded(row.slowest_us);
  json["regime"] = row.regime;
  json["crowded"] = row.crowded;
  if (!row.against.empty()) {
    json["against"] = row.against;
    json["against_time_us"] = to_json(row.against_time_us);
    json["ratio"] = four_digits(row.ratio);
  }
  json["rounds"] = nlohmann::ordered_json::array();
  for (const RoundRow& round : row.rounds) json["rounds"].push_back(to_json(round));
  return to_line(json);
}

}  // namespace lockstep::bench
