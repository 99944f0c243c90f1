#include "lockstep/planner/deepspeed_fill.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/planner/deepspeed_plan.h"

namespace lockstep::planner {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Layout;

struct Question {
  const ClusterJob& job;
  std::int64_t total_steps = 0;
  [[nodiscard]] const Layout& layout() const { return job.layout; }
  [[nodiscard]] const DeepSpeedFacts& facts() const { return job.deepspeed->facts; }
  [[nodiscard]] double hidden() const { return hidden_size(job.architecture); }
};

/// Null: nobody here knows.
struct Value {
  Json json;
  std::string why;
};

Value by_layout(std::int64_t number) { return {number, "this plan"}; }

Value train_batch(const Question& q) {
  const Layout& layout = q.layout();
  return {layout.global_batch(), format_count(layout.micro_batch) + " a micro-batch x " +
                                     format_count(layout.accumulation) + " accumulated x " +
                                     counted(layout.data, "data rank")};
}

Value micro_batch(const Question& q) { return by_layout(q.layout().micro_batch); }

Value accumulation(const Question& q) {
  const Layout& layout = q.layout();
  return {layout.accumulation, format_count(layout.global_batch()) + " samples a step / (" +
                                   format_count(layout.micro_batch) + " x " +
                                   counted(layout.data, "data rank") + ")"};
}

Value stage(const Question& q) { return by_layout(q.layout().zero); }
Value optimizer_device(const Question& q) {
  return {std::string(to_text(q.layout().offload_optimizer)), "this plan"};
}
Value parameter_device(const Question& q) {
  return {std::string(to_text(q.layout().offload_parameters)), "this plan"};
}

/// \param formula with what stands for hidden_size.
Value by_hidden(const Question& q, double number, const std::string& formula) {
  if (q.hidden() <= 0) {
    return {nullptr, "the model has no hidden_size: put a number of elements"};
  }
  return {Saturated::of(number).value(),
          formula + ", hidden_size " + format_count(Saturated::of(q.hidden()).value())};
}

Value reduce_bucket(const Question& q) {
  return by_hidden(q, q.hidden() * q.hidden(), "hidden_size x hidden_size");
}
Value prefetch_bucket(const Question& q) {
  return by_hidden(q, 0.9 * q.hidden() * q.hidden(), "0.9 x hidden_size x hidden_size");
}
Value persistence_threshold(const Question& q) {
  return by_hidden(q, 10 * q.hidden(), "10 x hidden_size");
}

Value by_default(Json value) { return {std::move(value), "DeepSpeed's default"}; }
Value half_a_billion(const Question& /*q*/) { return by_default(500'000'000); }
Value a_billion(const Question& /*q*/) { return by_default(1'000'000'000); }
Value one_rank(const Question& /*q*/) { return {1, "DeepSpeed's default: no second copy"}; }
Value overlap(const Question& q) {
  return {q.layout().zero == 3, "DeepSpeed's default: with stage 3 alone"};
}
Value gather_on_save(const Question& q) {
  return {q.layout().zero == 3, "a saved model is whole only with it"};
}

bool computes_in(const Question& q, std::string_view type) {
  if (q.job.recipe->compute >= 4) return false;
  return q.job.recipe->name.starts_with("fp16") == (type == "fp16");
}
Value bf16(const Question& q) {
  return {computes_in(q, "bf16"), "--precision " + std::string(q.job.recipe->name)};
}
Value fp16(const Question& q) {
  return {computes_in(q, "fp16"), "--precision " + std::string(q.job.recipe->name)};
}

Value by_facts(const Question& q, Json value, const char* name) {
  return {std::move(value),
          q.facts().source +
              (q.facts().source.starts_with("transformers") ? " of " + std::string(name) : "")};
}
Value clipping(const Question& q) { return by_facts(q, q.facts().clipping, "max_grad_norm"); }
Value rate(const Question& q) { return by_facts(q, q.facts().learning_rate, "learning_rate"); }
Value betas(const Question& q) { return by_facts(q, q.facts().betas, "adam_beta1 and adam_beta2"); }
Value eps(const Question& q) { return by_facts(q, q.facts().eps, "adam_epsilon"); }
Value decay(const Question& q) { return by_facts(q, q.facts().weight_decay, "weight_decay"); }
Value warm_from(const Question& /*q*/) { return {0, "as transformers fills it"}; }
Value warm_steps(const Question& q) { return by_facts(q, q.facts().warmup_steps, "warmup_steps"); }
Value all_steps(const Question& q) {
  if (q.total_steps > 0) return {q.total_steps, "what is to be trained / the samples of a step"};
  return {nullptr, "nobody said how much is trained (--tokens)"};
}

struct Rule {
  std::string_view key;
  Value (*value)(const Question& question);
};

constexpr auto kRules = std::to_array<Rule>({
    {"train_batch_size", train_batch},
    {"train_micro_batch_size_per_gpu", micro_batch},
    {"gradient_accumulation_steps", accumulation},
    {"zero_optimization.stage", stage},
    {"zero_optimization.offload_optimizer.device", optimizer_device},
    {"zero_optimization.offload_param.device", parameter_device},
    {"zero_optimization.reduce_bucket_size", reduce_bucket},
    {"zero_optimization.allgather_bucket_size", half_a_billion},
    {"zero_optimization.stage3_prefetch_bucket_size", prefetch_bucket},
    {"zero_optimization.stage3_param_persistence_threshold", persistence_threshold},
    {"zero_optimization.stage3_max_live_parameters", a_billion},
    {"zero_optimization.stage3_max_reuse_distance", a_billion},
    {"zero_optimization.sub_group_size", a_billion},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", gather_on_save},
    {"zero_optimization.zero_hpz_partition_size", one_rank},
    {"zero_optimization.overlap_comm", overlap},
    {"bf16.enabled", bf16},
    {"bfloat16.enabled", bf16},
    {"fp16.enabled", fp16},
    {"gradient_clipping", clipping},
    {"optimizer.params.lr", rate},
    {"optimizer.params.betas", betas},
    {"optimizer.params.eps", eps},
    {"optimizer.params.weight_decay", decay},
    {"scheduler.params.warmup_min_lr", warm_from},
    {"scheduler.params.warmup_max_lr", rate},
    {"scheduler.params.warmup_num_steps", warm_steps},
    {"scheduler.params.total_num_steps", all_steps},
});

Value value_of(const Question& question, const std::string& key) {
  for (const Rule& rule : kRules) {
    if (rule.key != key) continue;
    Value value = rule.value(question);
    const auto& because = question.job.deepspeed->because;
    const auto known = because.find(key);
    if (known != because.end()) value.why = known->second;
    return value;
  }
  return {nullptr, "a plan does not go by it"};
}

/// Where "auto" stands under `key`, whose parts have no dots but those between them; null where a
/// name has some.
Json* place_of(Json& config, std::string_view key) {
  Json* at = &config;
  while (true) {
    const std::size_t dot = key.find('.');
    const auto part = at->find(std::string(key.substr(0, dot)));
    if (part == at->end()) return nullptr;
    at = &*part;
    if (dot == std::string_view::npos) return at;
    if (!at->is_object()) return nullptr;
    key.remove_prefix(dot + 1);
  }
}

}  // namespace

FilledDeepSpeed fill_deepspeed(const ClusterJob& job, std::int64_t total_steps) {
  const Question question{job, total_steps};
  Json config = Json::parse(job.deepspeed->file.json);
  FilledDeepSpeed filled;
  for (const std::string& key : job.deepspeed->file.automatic) {
    Value value = value_of(question, key);
    Json* place = place_of(config, key);
    FilledKey row{key, "", value.why};
    if (!value.json.is_null() && place != nullptr && *place == "auto") {
      row.value = value.json.dump();
      *place = std::move(value.json);
    }
    filled.keys.push_back(std::move(row));
  }
  filled.config = to_line(config);
  return filled;
}

}  // namespace lockstep::planner
