#include "lockstep/comm/bench/request.h"

#include "lockstep/base/json_fields.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kMost = 1 << 30;  // iterations, rounds

int count_of(const JsonFields& fields, const char* key, std::int64_t least) {
  const std::int64_t count = fields.integer(key);
  if (count < least || count > kMost) fields.fail(std::string(key) + " is out of range");
  return static_cast<int>(count);
}

Collective collective_of(const JsonFields& fields, std::int64_t number) {
  const auto names = collective_names();
  if (number < 0 || number >= static_cast<std::int64_t>(names.size())) {
    fields.fail("ops holds an unknown collective");
  }
  return static_cast<Collective>(number);
}

}  // namespace

std::vector<std::int64_t> sizes_of(const Request& request, Collective op) {
  if (op == Collective::barrier) return {0};
  return request.bytes;
}

std::string to_json_text(const Request& request) {
  nlohmann::ordered_json json;
  json["backend"] = request.backend;
  json["against"] = request.against;
  json["ops"] = nlohmann::json::array();
  for (const Collective op : request.ops) json["ops"].push_back(static_cast<int>(op));
  json["bytes"] = request.bytes;
  json["iterations"] = request.iterations;
  json["warmup"] = request.warmup;
  json["rounds"] = request.rounds;
  json["first_round"] = request.first_round;
  json["pin"] = request.pin;
  json["symmetric"] = request.symmetric;
  return to_line(json);
}

Request request_from_json_text(const std::string& json) {
  const JsonFields fields(json, {"LS-7055", "request of bench comm"});
  Request request;
  request.backend = fields.text("backend");
  request.against = fields.text("against");
  for (const std::int64_t op : fields.integers("ops")) {
    request.ops.push_back(collective_of(fields, op));
  }
  request.bytes = fields.integers("bytes");
  for (const std::int64_t bytes : request.bytes) {
    if (bytes < 1) fields.fail("bytes holds a size below 1");
  }
  request.iterations = count_of(fields, "iterations", 1);
  request.warmup = count_of(fields, "warmup", 0);
  request.rounds = count_of(fields, "rounds", 1);
  request.first_round = count_of(fields, "first_round", 1);
  request.pin = fields.flag_or("pin", true);
  request.symmetric = fields.flag_or("symmetric", false);
  return request;
}

}  // namespace lockstep::bench
