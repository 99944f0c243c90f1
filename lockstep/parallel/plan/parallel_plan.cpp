#include "lockstep/parallel/plan/parallel_plan.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/saturated.h"

namespace lockstep::parallel {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const MemoryPlan& memory) {
  return {{"parameters", memory.parameters}, {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},   {"activations", memory.activations},
          {"buffers", memory.buffers},       {"communication", memory.communication},
          {"runtime", memory.runtime},       {"total", memory.total()}};
}

Json to_json(const config::BatchShape& batch) {
  return {{"global_batch", batch.global_batch},
          {"micro_batch", batch.micro_batch},
          {"accumulation", batch.accumulation},
          {"data_ranks", batch.data_ranks},
          {"leaves", batch.leaves},
          {"ordered", batch.ordered}};
}

MemoryPlan memory_from(const Json& json) {
  MemoryPlan memory;
  json.at("parameters").get_to(memory.parameters);
  json.at("gradients").get_to(memory.gradients);
  json.at("optimizer").get_to(memory.optimizer);
  json.at("activations").get_to(memory.activations);
  json.at("buffers").get_to(memory.buffers);
  json.at("communication").get_to(memory.communication);
  json.at("runtime").get_to(memory.runtime);
  return memory;
}

Json to_json(const std::vector<ParameterGroup>& groups) {
  Json list = Json::array();
  for (const ParameterGroup& group : groups) {
    list.push_back({{"name", group.name},
                    {"weight_decay", group.weight_decay},
                    {"lr_factor", group.lr_factor},
                    {"parameters", group.parameters},
                    {"elements", group.elements}});
  }
  return list;
}

std::vector<ParameterGroup> groups_from(const Json& list) {
  std::vector<ParameterGroup> groups;
  for (const Json& json : list) {
    ParameterGroup& group = groups.emplace_back();
    json.at("name").get_to(group.name);
    json.at("weight_decay").get_to(group.weight_decay);
    json.at("lr_factor").get_to(group.lr_factor);
    json.at("parameters").get_to(group.parameters);
    json.at("elements").get_to(group.elements);
  }
  return groups;
}

config::BatchShape batch_from(const Json& json) {
  config::BatchShape batch;
  json.at("global_batch").get_to(batch.global_batch);
  json.at("micro_batch").get_to(batch.micro_batch);
  json.at("accumulation").get_to(batch.accumulation);
  json.at("data_ranks").get_to(batch.data_ranks);
  json.at("leaves").get_to(batch.leaves);
  json.at("ordered").get_to(batch.ordered);
  return batch;
}

ParallelPlan plan_from(const Json& json) {
  ParallelPlan plan;
  json.at("strategies").get_to(plan.strategies);
  const Json& degree = json.at("degree");
  plan.degree = {degree.at("pp").get<int>(), degree.at("dp").get<int>(),
                 degree.at("tp").get<int>()};
  plan.batch = batch_from(json.at("batch"));
  json.at("first_bucket_bytes").get_to(plan.first_bucket_bytes);
  json.at("bucket_bytes").get_to(plan.bucket_bytes);
  json.at("last_bucket_bytes").get_to(plan.last_bucket_bytes);
  plan.memory = memory_from(json.at("memory_bytes"));
  json.at("comm_bytes_per_step").get_to(plan.comm_bytes_per_step);
  json.at("step_s").get_to(plan.step_s);
  json.at("exposed_comm_s").get_to(plan.exposed_comm_s);
  json.at("forward_s").get_to(plan.forward_s);
  json.at("backward_s").get_to(plan.backward_s);
  json.at("optimizer_s").get_to(plan.optimizer_s);
  if (json.contains("exchange")) json.at("exchange").get_to(plan.exchange);
  if (json.contains("compute")) json.at("compute").get_to(plan.compute);
  if (json.contains("groups")) plan.groups = groups_from(json.at("groups"));
  return plan;
}

}  // namespace

std::int64_t MemoryPlan::total() const {
  return (Saturated(parameters) + gradients + optimizer + activations + buffers + communication +
          runtime)
      .value();
}

std::string to_json_text(const ParallelPlan& plan) {
  Json json{{"strategies", plan.strategies},
            {"degree", {{"pp", plan.degree[0]}, {"dp", plan.degree[1]}, {"tp", plan.degree[2]}}},
            {"batch", to_json(plan.batch)},
            {"first_bucket_bytes", plan.first_bucket_bytes},
            {"bucket_bytes", plan.bucket_bytes},
            {"last_bucket_bytes", plan.last_bucket_bytes},
            {"memory_bytes", to_json(plan.memory)},
            {"comm_bytes_per_step", plan.comm_bytes_per_step},
            {"step_s", plan.step_s},
            {"exposed_comm_s", plan.exposed_comm_s},
            {"forward_s", plan.forward_s},
            {"backward_s", plan.backward_s},
            {"optimizer_s", plan.optimizer_s}};
  if (plan.exchange != "fp32") json["exchange"] = plan.exchange;
  if (!plan.compute.empty()) json["compute"] = plan.compute;
  if (!plan.groups.empty()) json["groups"] = to_json(plan.groups);
  return json.dump();
}

ParallelPlan plan_from_json_text(const std::string& json) {
  try {
    return plan_from(Json::parse(json));
  } catch (const Json::exception& error) {
    throw BadData({"LS-6011", "plan", error.what(), "start the run again from its configuration"});
  }
}

}  // namespace lockstep::parallel
