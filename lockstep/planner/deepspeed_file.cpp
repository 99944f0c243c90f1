#include "lockstep/planner/deepspeed_file.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::planner {
namespace {

using Json = nlohmann::json;
using parallel::Offload;

class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  [[nodiscard]] DeepSpeedFile read(std::string_view text) {
    const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) {
      refuse("is not a JSON object",
             "write it as deepspeed reads it: {\"zero_optimization\": ...}");
      return {};
    }
    DeepSpeedFile file;
    const auto section = document.find("zero_optimization");
    if (section == document.end()) return file;  // DeepSpeed's default: stage 0
    if (!section->is_object()) {
      refuse("zero_optimization is not an object", "write {\"stage\": 3}");
      return file;
    }
    file.zero = stage_of(*section);
    file.offload_optimizer = offload_of(*section, "offload_optimizer", "cpu_offload");
    file.offload_parameters = offload_of(*section, "offload_param", "cpu_offload_params");
    return file;
  }

  [[nodiscard]] std::vector<Problem> problems() && { return std::move(problems_); }

 private:
  void refuse(std::string what, std::string fix) {
    problems_.push_back({"LS-6115", where_, std::move(what), std::move(fix)});
  }

  int stage_of(const Json& section) {
    const auto stage = section.find("stage");
    if (stage == section.end()) return 0;
    if (stage->is_number_integer()) {
      const auto number = stage->get<std::int64_t>();
      if (number >= 0 && number <= 3) return static_cast<int>(number);
    }
    refuse("zero_optimization.stage is not a stage", "use 0, 1, 2 or 3");
    return 0;
  }

  Offload offload_of(const Json& section, const std::string& key, const std::string& old_key) {
    const auto old = section.find(old_key);
    if (old != section.end() && old->is_boolean() && old->get<bool>()) return Offload::cpu;
    const auto part = section.find(key);
    if (part == section.end() || part->is_null()) return Offload::none;
    if (part->is_object()) {
      const auto device = part->find("device");
      // DeepSpeed's documents and code name different defaults.
      if (device == part->end()) return refuse_device(key);
      if (*device == "none") return Offload::none;
      if (*device == "cpu") return Offload::cpu;
      if (*device == "nvme") return Offload::nvme;
    }
    return refuse_device(key);
  }

  Offload refuse_device(const std::string& key) {
    refuse("zero_optimization." + key + ".device is none of its words",
           "use \"none\", \"cpu\" or \"nvme\"");
    return Offload::none;
  }

  std::string where_;
  std::vector<Problem> problems_;
};

}  // namespace

DeepSpeedFile read_deepspeed_file(std::string_view json, const std::string& where) {
  Reader reader(where);
  const DeepSpeedFile file = reader.read(json);
  std::vector<Problem> problems = std::move(reader).problems();
  if (!problems.empty()) throw UsageError(std::move(problems));
  return file;
}

}  // namespace lockstep::planner
