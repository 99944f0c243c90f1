#include "lockstep/planner/deepspeed_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"

namespace lockstep::planner {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Offload;

constexpr int kDeepest = 32;            // objects and lists inside each other
constexpr double kMostElements = 1e15;  // of a bucket
constexpr double kMostSamples = 1e9;    // of a step
constexpr double kMostOfARank = 1e6;    // of a forward; forwards of a step
constexpr const char* kAuto = "auto";
constexpr std::size_t kTypingErrors = 2;  // letters

/// Top keys that a plan reads. DeepSpeed passes over others in silence, misspelt ones too.
constexpr auto kTopKeys = std::to_array<std::string_view>(
    {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
     "zero_optimization", "bf16", "bfloat16", "fp16", "gradient_clipping", "optimizer", "scheduler",
     "activation_checkpointing"});

/// Of zero_optimization: deepspeed/runtime/zero/config.py, which refuses any other.
constexpr auto kZeroKeys = std::to_array<std::string_view>({
    "stage",
    "contiguous_gradients",
    "reduce_scatter",
    "reduce_bucket_size",
    "use_multi_rank_bucket_allreduce",
    "allgather_partitions",
    "allgather_bucket_size",
    "overlap_comm",
    "load_from_fp32_weights",
    "elastic_checkpoint",
    "offload_param",
    "offload_optimizer",
    "zenflow",
    "sub_group_size",
    "cpu_offload_param",
    "cpu_offload_params",
    "cpu_offload_use_pin_memory",
    "cpu_offload",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_model_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "stage3_module_granularity_threshold",
    "stage3_use_all_reduce_for_fetch_params",
    "stage3_allgather_sequential",
    "stage3_partition_stream_chunk_size",
    "ignore_unused_parameters",
    "legacy_stage1",
    "round_robin_gradients",
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
    "zeropp_loco_param",
    "mics_shard_size",
    "mics_hierarchical_params_gather",
    "memory_efficient_linear",
    "pipeline_loading_checkpoint",
    "override_module_apply",
    "log_trace_cache_warnings",
    "enable_sanity_checks",
    "save_muon_momentum_buffer_in_memory",
    "leaf_module",
});

/// What plan and file have no common word for.
struct Uncounted {
  std::string_view key;
  std::string_view note;
};

constexpr auto kUncounted = std::to_array<Uncounted>({
    {"zero_quantized_weights", "quantized weights (ZeRO++) are counted whole"},
    {"zero_quantized_gradients", "quantized gradients (ZeRO++) are counted whole"},
    {"zenflow", "ZenFlow is not counted"},
});

/// The document, with what its text alone shows: keys that stand twice, and depth.
class Document {
 public:
  explicit Document(std::string_view text) {
    std::vector<std::set<std::string>> open;
    const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
      using Event = Json::parse_event_t;
      too_deep_ = too_deep_ || depth > kDeepest;
      if (event == Event::object_start) open.emplace_back();
      if (event == Event::object_end) open.pop_back();
      if (event == Event::key && !open.back().insert(value.get<std::string>()).second) {
        twice_.push_back(value.get<std::string>());
      }
      return !too_deep_;
    };
    json_ = Json::parse(text, look, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  }

  [[nodiscard]] const Json& json() const { return json_; }
  [[nodiscard]] bool too_deep() const { return too_deep_; }
  [[nodiscard]] const std::vector<std::string>& twice() const { return twice_; }

 private:
  Json json_;
  bool too_deep_ = false;
  std::vector<std::string> twice_;
};

/// \pre not deeper than kDeepest.
void collect_automatic(const Json& value, const std::string& path, std::vector<std::string>& all) {
  if (value == kAuto) all.push_back(path);
  if (!value.is_object()) return;
  for (const auto& [key, part] : value.items()) {
    collect_automatic(part, path.empty() ? key : path + "." + key, all);
  }
}

class Reader {
 public:
  explicit Reader(std::string where) { file_.where = std::move(where); }

  [[nodiscard]] DeepSpeedFile read(std::string_view text) && {
    const Document document(text);
    if (!check(document)) throw UsageError(std::move(problems_));
    const Json& all = document.json();
    file_.json = all.dump(-1, ' ', false, Json::error_handler_t::replace);
    collect_automatic(all, "", file_.automatic);
    check_names(all, "", kTopKeys, /*all_known=*/false);
    read_batch(all);
    read_precision(all);
    read_rest(all);
    if (const Json* zero = section(all, "zero_optimization")) read_zero(*zero);
    if (!problems_.empty()) throw UsageError(std::move(problems_));
    return std::move(file_);
  }

 private:
  void refuse(std::string what, std::string fix) {
    problems_.push_back({"LS-6115", file_.where, std::move(what), std::move(fix)});
  }

  bool check(const Document& document) {
    if (document.too_deep()) {
      refuse("is nested deeper than " + std::to_string(kDeepest), "write it as deepspeed reads it");
    } else if (!document.json().is_object()) {
      refuse("is not a JSON object",
             "write it as deepspeed reads it: {\"zero_optimization\": ...}");
    }
    for (const std::string& key : document.twice()) {
      refuse(key.substr(0, 64) + " stands twice", "keep one of them");
    }
    return problems_.empty();
  }

  /// A name one or two letters off is a misspelling. \param all_known say what others there are.
  void check_names(const Json& object, const std::string& path,
                   std::span<const std::string_view> known, bool all_known) {
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string close = nearest_name(key, known);
      if (key.size() > 4 && !close.empty() && edit_distance(key, close) <= kTypingErrors) {
        refuse("unknown key " + path + key, "did you mean " + close + "?");
      } else if (all_known) {
        file_.notes.push_back(path + key.substr(0, 64) + " of " + file_.where +
                              " is not known here");
      }
    }
  }

  /// Null where the file has none, or none that can be read.
  const Json* section(const Json& object, const std::string& key) {
    const auto part = object.find(key);
    if (part == object.end() || part->is_null()) return nullptr;
    if (part->is_object()) return &*part;
    refuse(key + " is not an object",
           key == "zero_optimization" ? "write {\"stage\": 3}" : "write {\"enabled\": true}");
    return nullptr;
  }

  template <typename Value>
  static bool is_auto(const Json& value, DeepSpeedValue<Value>& result) {
    result.is_auto = value == kAuto;
    return result.is_auto;
  }

  /// A whole number; 5e8 is one too.
  DeepSpeedValue<std::int64_t> whole(const Json& object, const std::string& path,
                                     const std::string& key, std::int64_t least, double most) {
    DeepSpeedValue<std::int64_t> result;
    const auto value = object.find(key);
    if (value == object.end() || value->is_null() || is_auto(*value, result)) return result;
    if (value->is_number()) {
      const double number = value->get<double>();
      if (number >= static_cast<double>(least) && number <= most && std::floor(number) == number) {
        result.fixed = static_cast<std::int64_t>(number);
        return result;
      }
    }
    const std::string range =
        most < 10
            ? "one of " + std::to_string(least) + " to " + std::to_string(static_cast<int>(most))
            : "a whole number from " + std::to_string(least) + " to " + format_short(most);
    refuse(path + key + " is " + shown(*value), "use " + range + ", or \"auto\"");
    return result;
  }

  DeepSpeedValue<bool> flag(const Json& object, const std::string& path, const std::string& key) {
    DeepSpeedValue<bool> result;
    const auto value = object.find(key);
    if (value == object.end() || value->is_null() || is_auto(*value, result)) return result;
    if (value->is_boolean()) {
      result.fixed = value->get<bool>();
    } else {
      refuse(path + key + " is " + shown(*value), "use true, false or \"auto\"");
    }
    return result;
  }

  static std::string shown(const Json& value) {
    if (value.is_structured()) return value.is_object() ? "an object" : "a list";
    return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 64);
  }

  void read_batch(const Json& all) {
    file_.train_batch = whole(all, "", "train_batch_size", 1, kMostSamples);
    file_.micro_batch = whole(all, "", "train_micro_batch_size_per_gpu", 1, kMostOfARank);
    file_.accumulation = whole(all, "", "gradient_accumulation_steps", 1, kMostOfARank);
  }

  void read_precision(const Json& all) {
    for (const char* name : {"bf16", "bfloat16"}) {  // the second in older files
      if (const Json* part = section(all, name)) {
        file_.bf16 = flag(*part, std::string(name) + ".", "enabled");
      }
    }
    if (const Json* part = section(all, "fp16")) file_.fp16 = flag(*part, "fp16.", "enabled");
    if (file_.bf16.or_else(false) && file_.fp16.or_else(false)) {
      refuse("bf16 and fp16 are both enabled", "keep one of them");
    }
  }

  void read_rest(const Json& all) {
    const auto clipping = all.find("gradient_clipping");
    if (clipping != all.end() && *clipping != kAuto &&
        !(clipping->is_number() && clipping->get<double>() >= 0)) {
      refuse("gradient_clipping is " + shown(*clipping), "use a number from 0 up, or \"auto\"");
    }
    if (all.contains("activation_checkpointing")) {
      file_.checkpoints_activations = section(all, "activation_checkpointing") != nullptr;
    }
    if (all.contains("scheduler")) (void)section(all, "scheduler");
    const Json* optimizer = all.contains("optimizer") ? section(all, "optimizer") : nullptr;
    if (optimizer == nullptr) return;
    const auto type = optimizer->find("type");
    if (type != optimizer->end() && type->is_string()) {
      file_.optimizer = type->get<std::string>();
    } else {
      refuse("optimizer has no type", "write {\"type\": \"AdamW\"}");
    }
    const auto params = optimizer->find("params");
    if (params != optimizer->end() && !params->is_object()) {
      refuse("optimizer.params is not an object", "write {\"lr\": \"auto\"}");
    }
  }

  void read_zero(const Json& zero) {
    const std::string path = "zero_optimization.";
    const auto elements = [&](const char* key) { return whole(zero, path, key, 0, kMostElements); };
    check_names(zero, path, kZeroKeys, /*all_known=*/true);
    file_.zero = whole(zero, path, "stage", 0, 3);
    file_.offload_optimizer = offload_of(zero, "offload_optimizer", {"cpu_offload"});
    file_.offload_parameters =
        offload_of(zero, "offload_param", {"cpu_offload_param", "cpu_offload_params"});
    file_.reduce_bucket = elements("reduce_bucket_size");
    file_.allgather_bucket = elements("allgather_bucket_size");
    file_.prefetch_bucket = elements("stage3_prefetch_bucket_size");
    file_.persistence_threshold = elements("stage3_param_persistence_threshold");
    file_.live_parameters = elements("stage3_max_live_parameters");
    file_.secondary_shard = elements("zero_hpz_partition_size");
    file_.overlap_comm = flag(zero, path, "overlap_comm");
    for (const Uncounted& row : kUncounted) {
      const auto value = zero.find(std::string(row.key));
      if (value != zero.end() && !value->is_null() && *value != false) {
        file_.notes.emplace_back(row.note);
      }
    }
    if (!zero.contains("stage") || file_.zero.fixed) check_stage();
  }

  /// What one stage alone has.
  void check_stage() {
    const std::int64_t stage = file_.zero.or_else(0);
    const std::string is = "zero_optimization.stage is " + std::to_string(stage);
    if (file_.offload_parameters.or_else(Offload::none) != Offload::none && stage < 3) {
      refuse(is + ", and offload_param is of stage 3 alone",
             "use \"stage\": 3, or drop offload_param");
    }
    if (file_.offload_optimizer.or_else(Offload::none) == Offload::nvme && stage < 3) {
      refuse(is + ", and nvme takes what stage 3 has cut into pieces",
             "use \"stage\": 3, or \"device\": \"cpu\"");
    }
    if (file_.offload_optimizer.or_else(Offload::none) != Offload::none && stage < 1) {
      refuse(is + ", and offload_optimizer is of stages 1 to 3",
             "use \"stage\": 2, or drop offload_optimizer");
    }
    if (file_.secondary_shard.or_else(1) > 1 && stage < 3) {
      refuse(is + ", and zero_hpz_partition_size is of stage 3 alone",
             "use \"stage\": 3, or drop zero_hpz_partition_size");
    }
  }

  DeepSpeedValue<Offload> offload_of(const Json& zero, const std::string& key,
                                     std::initializer_list<const char*> old_keys) {
    DeepSpeedValue<Offload> result;
    for (const char* old_key : old_keys) {
      if (flag(zero, "zero_optimization.", old_key).or_else(false)) result.fixed = Offload::cpu;
    }
    const auto part = zero.find(key);
    if (part == zero.end() || part->is_null()) return result;
    if (part->is_object()) {
      const auto device = part->find("device");
      // DeepSpeed's documents and code name different defaults.
      if (device != part->end() && is_auto(*device, result)) return result;
      for (const Offload place : {Offload::none, Offload::cpu, Offload::nvme}) {
        if (device == part->end() || *device != std::string(to_text(place))) continue;
        result.fixed = place;
        return result;
      }
    }
    refuse("zero_optimization." + key + ".device is none of its words",
           "use \"none\", \"cpu\" or \"nvme\"");
    return result;
  }

  DeepSpeedFile file_;
  std::vector<Problem> problems_;
};

}  // namespace

DeepSpeedFacts facts_of(const config::RunConfig& run) {
  DeepSpeedFacts facts;
  facts.learning_rate = run.optimizer.lr;
  facts.betas = run.optimizer.betas;
  facts.eps = run.optimizer.eps;
  facts.weight_decay = run.optimizer.weight_decay;
  facts.clipping = run.optimizer.clip_grad_norm;
  facts.warmup_steps = run.schedule.warmup_steps;
  facts.source = "RUN.toml";
  return facts;
}

DeepSpeedFile read_deepspeed_file(std::string_view json, const std::string& where) {
  return Reader(where).read(json);
}

}  // namespace lockstep::planner
