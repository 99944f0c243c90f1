#include "lockstep/checkpoint/bench/request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kBenchParts> kNames{"disk write", "save", "load",
                                                           "async stall", "async save"};

[[noreturn]] void fail(const std::string& text) {
  throw BadData({"LS-7201", "bench checkpoint", "not understood: " + text.substr(0, 200),
                 "start its ranks with `lockstep bench checkpoint`"});
}

/// Runs `read` over the JSON object in `text`.
template <typename Read>
auto read_object(const std::string& text, const Read& read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception&) {
    fail(text);
  }
}

}  // namespace

std::string_view name_of(BenchPart part) { return kNames.at(static_cast<std::size_t>(part)); }

std::string to_json_text(const BenchRequest& request) {
  return json({{"dir", request.dir},
               {"bytes", request.bytes},
               {"rounds", request.rounds},
               {"first_round", request.first_round}})
      .dump();
}

BenchRequest bench_request_from(const std::string& text) {
  const BenchRequest request = read_object(text, [](const json& object) {
    return BenchRequest{object.at("dir").get<std::string>(), object.at("bytes").get<std::int64_t>(),
                        object.at("rounds").get<int>(), object.at("first_round").get<int>()};
  });
  if (request.bytes < 1 || request.rounds < 1 || request.dir.empty()) fail(text);
  return request;
}

std::string to_json_text(const BenchSample& sample) {
  return nlohmann::ordered_json(
             {{"part", name_of(sample.part)}, {"round", sample.round}, {"seconds", sample.seconds}})
      .dump();
}

BenchSample bench_sample_from(const std::string& text) {
  return read_object(text, [&](const json& object) {
    const auto part = std::find(kNames.begin(), kNames.end(), object.at("part").get<std::string>());
    const double seconds = object.at("seconds").get<double>();
    if (part == kNames.end() || !std::isfinite(seconds) || seconds < 0) fail(text);
    return BenchSample{static_cast<BenchPart>(part - kNames.begin()), object.at("round").get<int>(),
                       seconds};
  });
}

}  // namespace lockstep::checkpoint
