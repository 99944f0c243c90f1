#include "lockstep/planner/cluster_plan.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/layout_part.h"
#include "lockstep/planner/deepspeed_plan.h"

namespace lockstep::planner {
namespace {

using parallel::DeviceParameters;
using parallel::MemoryPlan;
using parallel::MemoryPrediction;
using parallel::StateBytes;

constexpr int kUsualDevicesPerHost = 8;

std::int64_t whole_bytes(double bytes) { return Saturated::of(std::ceil(bytes)).value(); }

/// What a file says of it depends on the stage, so nothing is kept from one layout to the next.
parallel::MemoryStack memory_stack_of(const ClusterJob& job) {
  if (job.deepspeed) return deepspeed_memory_stack(job);
  const std::string_view name =
      job.memory_software.empty() ? parallel::usual_stack(job.layout).name : job.memory_software;
  const parallel::MemoryStack* stack = parallel::find_memory_stack(name);
  return stack == nullptr ? parallel::usual_memory_stack() : *stack;
}

/// Of a number that was given, the share of a stage is that of the model like it; tensor ranks
/// share it evenly, because nothing is known of what they would have to repeat.
DeviceParameters given_of_stage(const ClusterJob& job, int stage) {
  parallel::Layout untouched = job.layout;
  untouched.tensor = 1;
  const double whole = static_cast<double>(job.model.parameters());
  const double share = parallel::parameters_of_stage(job.model, untouched, stage).count() / whole;
  return {job.given_parameters * share / std::max(1, job.layout.tensor), 0};
}

DeviceParameters parameters_of(const ClusterJob& job, int stage) {
  if (job.given_parameters > 0) return given_of_stage(job, stage);
  return parallel::parameters_of_stage(job.model, job.layout, stage);
}

void put_states(const StateBytes& states, MemoryPrediction& memory) {
  memory.states = states;
  memory.device.parameters = whole_bytes(states.parameters);
  memory.device.gradients = whole_bytes(states.gradients);
  memory.device.optimizer = whole_bytes(states.optimizer());
}

MemoryPrediction states_alone(const ClusterJob& job) {
  MemoryPrediction fullest;
  for (int stage = 0; stage < job.layout.pipeline; ++stage) {
    MemoryPrediction here;
    here.stage = stage;
    here.parameters = parameters_of(job, stage);
    put_states(parallel::state_bytes(here.parameters, job.layout, *job.recipe), here);
    here.host_bytes = whole_bytes(here.states.host);
    here.nvme_bytes = whole_bytes(here.states.nvme);
    if (stage == 0 || here.device.total() > fullest.device.total()) fullest = here;
  }
  return fullest;
}

MemoryPrediction whole_memory(const ClusterJob& job) {
  MemoryPrediction memory =
      parallel::predict_memory(job.model, job.layout, *job.recipe, memory_stack_of(job));
  if (job.given_parameters <= 0) return memory;
  const StateBytes before = memory.states;
  memory.parameters = parameters_of(job, memory.stage);
  put_states(parallel::state_bytes(memory.parameters, job.layout, *job.recipe), memory);
  memory.host_bytes += whole_bytes(memory.states.host) - whole_bytes(before.host);
  memory.nvme_bytes += whole_bytes(memory.states.nvme) - whole_bytes(before.nvme);
  return memory;
}

parallel::DeepSpeedQuestion question_of(const ClusterJob& job) {
  const int per_host = job.machine ? job.machine->devices_per_host : kUsualDevicesPerHost;
  const auto devices = static_cast<int>(job.layout.devices());
  parallel::DeepSpeedQuestion question;
  question.parameters =
      job.given_parameters > 0 ? job.given_parameters : static_cast<double>(job.model.parameters());
  question.largest_layer = job.largest_layer;
  question.stage = job.layout.zero;
  question.devices_per_host = std::min(devices, per_host);
  question.hosts = (devices + per_host - 1) / per_host;
  question.offload_optimizer = job.layout.offload_optimizer != parallel::Offload::none;
  question.offload_parameters = job.layout.offload_parameters != parallel::Offload::none;
  return question;
}

/// Their sum is the estimators' number. Of a parameter's 18 bytes 2 are its weight, 2 its gradient
/// and 4 an fp32 one, 12 the optimizer; a gathered layer is half weights, half gradients.
MemoryPrediction by_deepspeed(const ClusterJob& job) {
  constexpr double kOptimizer = 12;
  constexpr double kGradients = 6;
  constexpr double kGathered = 2;
  const parallel::DeepSpeedQuestion question = question_of(job);
  const parallel::DeepSpeedBytes bytes = parallel::deepspeed_states(question);
  const double own = question.parameters / static_cast<double>(job.layout.devices());
  const double gathered = question.stage >= 3 ? kGathered * question.largest_layer : 0;
  StateBytes states;
  states.moments = question.offload_optimizer ? 0 : kOptimizer * own;
  states.gradients = gathered + (question.offload_optimizer ? 0 : kGradients * own);
  states.parameters = bytes.device - states.gradients - states.moments;
  MemoryPrediction memory;
  memory.parameters = {question.parameters, 0};
  put_states(states, memory);
  memory.device.parameters =
      whole_bytes(bytes.device) - memory.device.gradients - memory.device.optimizer;
  memory.host_bytes = whole_bytes(bytes.host / question.devices_per_host);
  memory.assumptions = {
      "states as DeepSpeed's own estimators count them: 16-bit weights and gradients, fp32 "
      "gradients, masters and moments, 18 B a parameter",
      "the host's memory is that of its " + counted(question.devices_per_host, "device") +
          " together, half as much again for its buffers"};
  if (question.stage >= 3) {
    memory.assumptions.push_back("largest layer " + format_short(question.largest_layer) +
                                 " parameters; the model is split while it is made (zero.Init)");
  }
  return memory;
}

std::string rate_text(double bytes_per_s) {
  return format_bytes(Saturated::of(bytes_per_s).value()) + "/s";
}

/// \param computed_s a step that waits for nothing.
void say_loading(const ClusterJob& job, double computed_s, ClusterPlan& plan) {
  const parallel::DataSource source = source_of(job);
  const std::string needs =
      rate_text(parallel::needed_bytes_per_s(source, job.layout, *job.machine, computed_s)) +
      " of data a host (" + format_bytes(Saturated::of(source.sample_bytes).value()) + " a sample)";
  if (!source.has_rate()) {
    plan.assumptions.push_back("needs " + needs + " (--read-rate)");
  } else if (plan.time->data_wait_s > 0) {
    plan.assumptions.push_back(
        format_duration(plan.time->data_wait_s) + " of a step wait for data: reading takes " +
        format_duration(plan.loading_s) + ", without waiting it needs " + needs);
  } else {
    plan.assumptions.push_back("data are read in " + format_duration(plan.loading_s) +
                               " beside the step before: it needs " + needs);
  }
}

void add_time(const ClusterJob& job, ClusterPlan& plan) {
  plan.time =
      parallel::predict_time(job.model, job.layout, *job.recipe, *job.machine, time_stack_of(job));
  if (!(plan.time->step_s > 0) || !std::isfinite(plan.time->step_s)) {
    plan.time.reset();
    return;
  }
  const double computed_s = plan.time->step_s;
  plan.loading_s = add_loading(job, job.layout, *job.machine, *plan.time);
  say_loading(job, computed_s, plan);
  plan.samples_per_s = static_cast<double>(job.layout.global_batch()) / plan.time->step_s;
  if (job.model.counts_tokens) {
    plan.tokens_per_s = plan.samples_per_s * static_cast<double>(job.model.tokens_per_sample);
  }
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  for (const std::string& one : more) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
}

/// The software has one sentence where memory and time go by the same.
/// Whether so much of the model is causal flash attention that its share of the peak looks too
/// good.
bool counts_unseen_scores(const ClusterJob& job) {
  constexpr double kNotable = 0.25;  // of all FLOPs
  const double all = job.model.forward_flops_per_sample();
  return job.layout.flash_attention && job.architecture.kind == model::ArchitectureKind::decoder &&
         job.model.attention_flops_per_sample() > kNotable * all;
}

std::vector<std::string> time_assumptions(const ClusterJob& job,
                                          const parallel::TimePrediction& time) {
  const std::string_view software = time_stack_of(job).name;
  std::vector<std::string> sentences = time.assumptions;
  if (counts_unseen_scores(job)) {
    sentences.emplace_back(
        "model FLOPs count attention's whole square of scores, as published figures do; flash "
        "attention computes the half that a causal model has, so the share of the peak may pass "
        "100 %");
  }
  if (memory_stack_of(job).name == software) {
    sentences.erase(
        std::remove(sentences.begin(), sentences.end(), "software as " + std::string(software)),
        sentences.end());
  }
  return sentences;
}

/// What was not asked for, or left out, is said.
void say_scope(const ClusterJob& job, ClusterPlan& plan) {
  if (job.states_only) {
    plan.assumptions.emplace_back(
        "activations, buffers, communication and runtime are left out: a training takes more than "
        "this");
  }
  if (job.given_parameters > 0) {
    plan.assumptions.push_back(
        (job.states_only ? "states of exactly the parameters given"
                         : "states of exactly the parameters given, activations and time of a GPT "
                           "of about so many"));
  }
}

}  // namespace

std::optional<bool> ClusterPlan::fits() const {
  if (device_memory_bytes == 0) return std::nullopt;
  return memory.device.total() <= device_memory_bytes;
}

parallel::DataSource source_of(const ClusterJob& job) {
  parallel::DataSource source = job.source;
  if (source.sample_bytes <= 0) {
    source.sample_bytes =
        parallel::stored_sample_bytes(job.model, static_cast<double>(job.architecture.vocabulary));
  }
  return source;
}

double add_loading(const ClusterJob& job, const parallel::Layout& layout, const Machine& machine,
                   parallel::TimePrediction& time) {
  const double seconds = parallel::loading_s(source_of(job), layout, machine);
  const double wait_s = seconds - time.step_s;
  if (!(wait_s > 0)) return seconds;
  const double slower = time.step_s / seconds;
  time.data_wait_s = wait_s;
  time.step_s = seconds;
  time.tflops_per_device *= slower;
  time.mfu *= slower;
  time.hfu *= slower;
  return seconds;
}

const parallel::SoftwareStack& time_stack_of(const ClusterJob& job) {
  return time_stack_of(job, job.layout);
}

const parallel::SoftwareStack& time_stack_of(const ClusterJob& job,
                                             const parallel::Layout& layout) {
  const bool splits = layout.tensor > 1 || layout.pipeline > 1;
  if (splits || !job.deepspeed) return parallel::usual_stack(layout);
  const bool overlaps = job.deepspeed->file.overlap_comm.or_else(false);
  return *parallel::find_stack(overlaps ? "DeepSpeed with overlap_comm" : "DeepSpeed");
}

double samples_of_training(const ClusterJob& job) {
  const std::int64_t each = job.model.counts_tokens ? job.model.tokens_per_sample : 1;
  return job.tokens / static_cast<double>(std::max<std::int64_t>(1, each));
}

std::string trained_text(const ClusterJob& job) {
  return format_short(job.tokens) + (job.model.counts_tokens ? " tokens" : " samples");
}

parallel::StateBytes fullest_states(const ClusterJob& job) { return states_alone(job).states; }

ClusterPlan plan_cluster(const ClusterJob& job) {
  ClusterPlan plan;
  plan.parameters =
      job.given_parameters > 0 ? job.given_parameters : static_cast<double>(job.model.parameters());
  if (job.machine) plan.device_memory_bytes = job.machine->device.memory_bytes;
  plan.assumptions = job.assumptions;
  say_scope(job, plan);
  if (job.deepspeed_rule) {
    plan.memory = by_deepspeed(job);
  } else if (job.states_only) {
    plan.memory = states_alone(job);
    plan.memory.assumptions = {"precision " + std::string(job.recipe->name) + ": " +
                               std::string(job.recipe->summary) + ", " +
                               format_shortest(job.recipe->states()) + " B a parameter"};
    if (parallel::table_parameters(job.model) > 0) {
      plan.memory.assumptions.emplace_back(
          "embedding tables: fp32 and row-wise Adagrad, 4 B a parameter and 4 B a row");
    }
  } else {
    plan.memory = whole_memory(job);
  }
  append(plan.assumptions, plan.memory.assumptions);
  if (job.machine && !job.states_only) {
    add_time(job, plan);
    if (plan.time) append(plan.assumptions, time_assumptions(job, *plan.time));
  }
  return plan;
}

ClusterPlan plan_alone(const ClusterJob& job) {
  ClusterJob alone = job;
  const parallel::Layout& layout = job.layout;
  alone.deepspeed_rule = false;
  alone.layout = parallel::Layout{};
  alone.layout.micro_batch = layout.micro_batch;
  alone.layout.recompute = layout.recompute;
  alone.layout.flash_attention = layout.flash_attention;
  if (alone.machine) alone.machine->devices = 1;
  return plan_cluster(alone);
}

}  // namespace lockstep::planner
