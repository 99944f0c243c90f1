#include "lockstep/planner/advice.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/collective_time.h"
#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::planner {
namespace {

/// ZeRO-Offload trains 13B parameters, 208 GB of states, on one V100 of 32 GB (Ren et al. 2021,
/// arXiv:2101.06840): beyond that no single device will do.
constexpr double kMostOffloaded = 6.5;
constexpr double kSooner = 3;         // "needed in a third of the time"
constexpr double kBytesPerToken = 4;  // of English text, GPT-2's vocabulary

std::string times(double factor) { return format_short(factor) + "x"; }

bool is_transformer(const ClusterJob& job) {
  return job.model.counts_tokens && job.architecture.kind != model::ArchitectureKind::resnet;
}

double sample_bytes(const ClusterJob& job) {
  if (job.model.counts_tokens) {
    return kBytesPerToken * static_cast<double>(job.model.tokens_per_sample);
  }
  return static_cast<double>(job.model.input_bytes_per_sample);
}

/// Of the whole training; 0 = unknown.
double samples_of(const ClusterJob& job, const TrainingFacts& facts) {
  if (job.tokens > 0) return samples_of_training(job);
  return sample_bytes(job) > 0 ? facts.data_bytes / sample_bytes(job) : 0;
}

/// Part of a step's samples that bring the training on: 1 / (1 + batch / critical batch).
double useful_part(const ClusterJob& job, const TrainingFacts& facts, double batch) {
  if (facts.data_bytes <= 0 || !is_transformer(job)) return 1;
  const double tokens = batch * static_cast<double>(job.model.tokens_per_sample);
  const double critical = critical_batch_tokens(static_cast<double>(job.model.parameters()),
                                                facts.data_bytes / kBytesPerToken);
  return 1 / (1 + tokens / critical);
}

double fed(double samples_per_s, double loader, double hosts) {
  return loader > 0 ? std::min(samples_per_s, loader * hosts) : samples_per_s;
}

double hosts_of(const ClusterJob& job) {
  const auto per_host = static_cast<double>(std::max(1, job.machine->devices_per_host));
  return std::max(1.0, std::ceil(static_cast<double>(job.layout.devices()) / per_host));
}

ClusterJob alone_with_batch(const ClusterJob& job, std::int64_t accumulation) {
  ClusterJob alone = job;
  alone.deepspeed_rule = false;
  alone.states_only = false;
  alone.source = {};  // the loader is counted by itself
  alone.layout = parallel::Layout{};
  alone.layout.micro_batch = job.layout.micro_batch;
  alone.layout.accumulation = std::max<std::int64_t>(1, accumulation);
  alone.layout.recompute = job.layout.recompute;
  alone.layout.flash_attention = job.layout.flash_attention;
  alone.machine->devices = 1;
  return alone;
}

/// Useful samples a second of one device: with the global batch, or with its own small one,
/// whichever brings the training on faster.
double rate_alone(const ClusterJob& job, const TrainingFacts& facts) {
  const parallel::Layout& layout = job.layout;
  double best = 0;
  for (const std::int64_t accumulation :
       {layout.global_batch() / std::max<std::int64_t>(1, layout.micro_batch),
        layout.accumulation}) {
    const ClusterJob alone = alone_with_batch(job, accumulation);
    const double rate = fed(plan_cluster(alone).samples_per_s, facts.loader_samples_per_s, 1);
    const auto batch = static_cast<double>(alone.layout.global_batch());
    best = std::max(best, rate * useful_part(job, facts, batch));
  }
  return best;
}

struct Rates {
  double alone = 0;      // useful samples a second
  double together = 0;   // of all devices
  double useful = 1;     // part of what all devices compute
  bool starved = false;  // by the loader
};

Rates rates_of(const Situation& at) {
  Rates rates;
  if (!at.job.machine || !at.plan.time) return rates;
  const double hosts = hosts_of(at.job);
  const double all = fed(at.plan.samples_per_s, at.facts.loader_samples_per_s, hosts);
  rates.starved = all < at.plan.samples_per_s;
  rates.useful = useful_part(at.job, at.facts, static_cast<double>(at.job.layout.global_batch()));
  rates.together = all * rates.useful;
  rates.alone = rate_alone(at.job, at.facts);
  return rates;
}

bool judge_memory(const Situation& at, Distribution& answer) {
  if (at.over_memory <= 0) {
    answer.reasons.emplace_back("memory: the device is not known");
    return false;
  }
  const bool over = at.over_memory > 1;
  answer.reasons.push_back("memory, " + std::string(over ? "yes" : "no") +
                           ": one device would need " +
                           format_bytes(at.alone.memory.device.total()) + " of its " +
                           format_bytes(at.alone.device_memory_bytes));
  return over;
}

bool judge_time(const Situation& at, const Rates& rates, Distribution& answer) {
  const double samples = samples_of(at.job, at.facts);
  if (rates.alone <= 0 || samples <= 0) {
    answer.reasons.emplace_back("time: how much is trained is not known");
    return false;
  }
  const double alone_s = samples / rates.alone;
  const std::string takes = "one device would take " + format_duration(alone_s);
  if (at.facts.need_within_s <= 0) {
    answer.reasons.push_back("time, no: " + takes + ", and nobody said when it is needed");
    return false;
  }
  const bool sooner = at.facts.need_within_s <= alone_s / kSooner;
  answer.reasons.push_back("time, " + std::string(sooner ? "yes" : "no") + ": " + takes +
                           ", needed within " + format_duration(at.facts.need_within_s));
  return sooner;
}

bool judge_links(const Situation& at, Distribution& answer) {
  if (at.exchange_s <= 0 || at.compute_s <= 0) {
    answer.reasons.emplace_back("links: nothing to exchange, or the device is not known");
    return false;
  }
  const bool fast = at.exchange_s <= at.compute_s;
  answer.reasons.push_back("links, " + std::string(fast ? "yes" : "no") +
                           ": the exchange of a step takes " + format_duration(at.exchange_s) +
                           " over " + std::string(at.link().name) + ", computing a step " +
                           format_duration(at.compute_s));
  return fast;
}

void say_speedup(const Situation& at, const Rates& rates, Distribution& answer) {
  if (rates.alone <= 0 || rates.together <= 0) return;
  answer.expected_speedup = rates.together / rates.alone;
  answer.reasons.push_back(counted(at.job.layout.devices(), "device") + " are " +
                           times(answer.expected_speedup) + " as fast as one; worth it from " +
                           times(least_speedup(at.job.layout.devices())));
  if (rates.starved) {
    answer.reasons.push_back("the loader gives " + format_short(at.facts.loader_samples_per_s) +
                             " samples/s a host, the devices could take " +
                             format_short(at.plan.samples_per_s));
  }
  if (rates.useful < 0.9) {
    answer.reasons.push_back(format_bytes(Saturated::of(at.facts.data_bytes).value()) +
                             " of data cannot use so large a batch: " +
                             format_percent(1 - rates.useful, 0) + " of each step is lost");
  }
}

/// Of all gradients, were they exchanged at once.
double gradient_exchange_s(const ClusterJob& job) {
  const std::int64_t replicas = job.layout.replicas();
  if (!job.machine || replicas < 2) return 0;
  const double others = std::max(
      1.0, static_cast<double>(job.layout.tensor) * static_cast<double>(job.layout.pipeline));
  const double parameters =
      (job.given_parameters > 0 ? job.given_parameters
                                : static_cast<double>(job.model.parameters())) -
      parallel::table_parameters(job.model);
  const parallel::Group group = parallel::group_of(replicas, job.layout.tensor, *job.machine);
  return parallel::collective_time(parallel::Collective::all_reduce,
                                   parameters / others * job.recipe->reduce, group, *job.machine);
}

/// What one device is compared with: itself eight times, in one host where it is sold so.
ClusterJob on_more_than_one(const ClusterJob& job) {
  constexpr int kUsual = 8;
  ClusterJob spread = job;
  if (job.layout.devices() > 1 || !job.machine) return spread;
  spread.layout.data = kUsual;
  if (parallel::table_parameters(job.model) > 0) spread.layout.tables = kUsual;
  spread.machine->devices = kUsual;
  return spread;
}

}  // namespace

bool Situation::crosses_hosts() const {
  return job.machine && job.layout.devices() > job.machine->devices_per_host;
}

const LinkModel& Situation::link() const {
  return crosses_hosts() ? job.machine->between : job.machine->inside;
}

Situation situation_of(const ClusterJob& job, const TrainingFacts& facts) {
  ClusterJob whole = job;  // advice needs all of it
  whole.states_only = false;
  whole.deepspeed_rule = false;
  whole.source = {};
  Situation at{job, facts, plan_cluster(whole), plan_alone(whole)};
  if (at.alone.device_memory_bytes > 0) {
    at.over_memory = static_cast<double>(at.alone.memory.device.total()) /
                     static_cast<double>(at.alone.device_memory_bytes);
  }
  at.exchange_s = gradient_exchange_s(job);
  if (at.plan.time) {
    at.exchange_s += at.plan.time->tensor_comm_s + at.plan.time->pipeline_comm_s;
    at.compute_s = at.plan.time->forward_s + at.plan.time->backward_s + at.plan.time->recompute_s;
  }
  return at;
}

double least_speedup(std::int64_t devices) {
  return std::min(2.0, 1 + static_cast<double>(std::max<std::int64_t>(1, devices) - 1) / 7);
}

double critical_batch_tokens(double parameters, double data_tokens) {
  constexpr double kParameters = 8.8e13;
  constexpr double kTokens = 5.4e13;
  constexpr double kModelPower = 0.076;
  constexpr double kDataPower = 0.095;
  const double loss =
      std::pow(std::pow(kParameters / parameters, kModelPower / kDataPower) + kTokens / data_tokens,
               kDataPower);
  return 2e8 / std::pow(loss, 1 / 0.21);
}

Distribution distribute(const ClusterJob& job, const TrainingFacts& facts) {
  const ClusterJob spread = on_more_than_one(job);
  const Situation at = situation_of(spread, facts);
  const Rates rates = rates_of(at);
  Distribution answer;
  const int grounds = (judge_memory(at, answer) ? 1 : 0) + (judge_time(at, rates, answer) ? 1 : 0) +
                      (judge_links(at, answer) ? 1 : 0);
  say_speedup(at, rates, answer);
  const bool impossible_alone = at.over_memory > kMostOffloaded;
  const bool pays = answer.expected_speedup == 0 ||
                    answer.expected_speedup >= least_speedup(spread.layout.devices());
  answer.needed = impossible_alone || (grounds >= 2 && pays);
  if (impossible_alone) {
    answer.reasons.push_back(times(at.over_memory) +
                             " the memory of one device is more than offloading makes up for");
  } else if (!answer.needed) {
    answer.reasons.push_back(grounds < 2 ? std::to_string(grounds) + " of the three grounds holds"
                                         : "too little is gained: stay on one device");
  }
  return answer;
}

std::vector<GivenAdvice> advice(const ClusterJob& job, const TrainingFacts& facts) {
  const Situation at = situation_of(job, facts);
  std::vector<GivenAdvice> all;
  for (const AdviceRule& rule : advice_rules()) {
    if (rule.apply == nullptr) continue;
    if (facts.searched && rule.topic == kKindOfParallelism) continue;
    if (std::optional<Said> said = rule.apply(at)) {
      all.push_back({std::move(said->say), std::move(said->because), std::string(rule.source)});
    }
  }
  return all;
}

std::string choosing_markdown() {
  std::string text =
      "# Choosing how to train on several devices\n\n"
      "`lockstep plan` applies the rules of this page to your model and says which of them hold, "
      "with your numbers (\"advice\").\nThe page is made from the same table "
      "(`lockstep/planner/advice_rules.cpp`).\n\n"
      "**First: is more than one device needed?** Yes, when two of these three hold:\n\n"
      "1. the training does not fit into the memory of one device;\n"
      "2. you need it in a third of the time, or less;\n"
      "3. the links are fast: the gradients of a step arrive in the time that it computes.\n\n"
      "No, when 8 devices would not be twice as fast as one, because links, the loader or the "
      "amount of data hold them up.\nThen stay on one device. What cannot be held by "
      "one device even with offloading (6.5 times its memory,\n[arXiv:2101.06840]"
      "(https://arxiv.org/abs/2101.06840)) needs more of them in any case.\n\n"
      "Words used here are in the [glossary](../glossary.md); how plans count is in "
      "[planning](../planning.md).\n";
  std::string_view topic;
  for (const AdviceRule& rule : advice_rules()) {
    if (rule.topic != topic) {
      topic = rule.topic;
      text += "\n## " + std::string(topic) +
              "\n\n| when | do | because | source |\n|---|---|---|---|\n";
    }
    for (const std::string_view cell : {rule.when, rule.act, rule.because, rule.source}) {
      text += "| " + std::string(cell) + " ";
    }
    text += "|\n";
  }
  return text;
}

}  // namespace lockstep::planner
