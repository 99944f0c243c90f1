#include "lockstep/cli/plan_cluster.h"

#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/planner/deepspeed_plan.h"

namespace lockstep::cli {
namespace {

/// The best layout becomes the job's, or where none fits the one that comes closest.
void search(ClusterReport& report) {
  planner::SearchLimits limits;
  limits.need_within_s = report.questions.need_within_s;
  limits.failures = report.questions.failures;
  if (report.job.deepspeed) limits.fixed = planner::fixed_by(report.job.deepspeed->file);
  report.search = planner::search_layouts(report.job, limits);
  const planner::SearchResult& found = *report.search;
  if (!found.ranked.empty()) {
    report.job.layout = found.ranked.front().layout;
  } else if (found.smallest) {
    report.job.layout = *found.smallest;
    report.job.assumptions.emplace_back(
        "no layout fits: this is the one that takes the least memory");
  } else {
    const std::int64_t devices = report.job.machine->devices;
    throw UsageError({{"LS-1009", "--global-batch",
                       counted(report.job.layout.global_batch(), "sample") +
                           " cannot be shared by " + counted(devices, "device") + " in any layout",
                       "use a multiple of " + format_count(devices) + ", or other devices"}});
  }
}

planner::TrainingFacts facts_of(const ClusterReport& report) {
  planner::TrainingFacts facts = report.questions.facts;
  facts.loader_samples_per_s = planner::source_of(report.job).most_samples_per_s();
  return facts;
}

void judge_distribution(ClusterReport& report) {
  if (report.plan.device_memory_bytes == 0) {
    report.distribution.reasons.emplace_back("no device was named (--gpu)");
  } else {
    report.distribution = planner::distribute(report.job, facts_of(report));
  }
  report.advice = planner::advice(report.job, facts_of(report));
}

void judge_time(ClusterReport& report) {
  const double limit = report.questions.need_within_s;
  if (limit <= 0) return;
  if (report.search && report.search->within) {
    const planner::DevicesWithin& within = *report.search->within;
    report.within = DoneWithin{within.devices, within.train_s, within.sentence};
    return;
  }
  const std::string failures = report.goodput ? ", with its failures" : "";
  DoneWithin within;
  within.train_s = train_seconds(report);
  if (report.goodput && within.train_s > 0) {
    within.train_s = planner::expected_s(*report.goodput, within.train_s);
  }
  if (within.train_s <= 0) {
    within.sentence = "not known: no time is predicted (--gpu names a device)";
  } else if (within.train_s <= limit) {
    within.devices = report.job.layout.devices();
    within.sentence = "within " + format_duration(limit) + failures + ": yes";
  } else {
    within.sentence = "within " + format_duration(limit) + failures +
                      ": no; --search says how many devices would do";
  }
  report.within = std::move(within);
}

void judge_failures(ClusterReport& report) {
  if (!report.questions.failures) return;
  planner::GoodputQuestion question = *report.questions.failures;
  question.units = report.job.layout.devices();
  report.goodput = planner::goodput(question);
}

/// States alone leave the batch, and with it what is "auto", open.
void fill_deepspeed(ClusterReport& report) {
  if (!report.job.deepspeed || report.job.states_only) return;
  const double samples = planner::samples_of_training(report.job);
  const auto step = static_cast<double>(report.job.layout.global_batch());
  report.deepspeed =
      planner::fill_deepspeed(report.job, Saturated::of(std::ceil(samples / step)).value());
}

void say_what_fits(ClusterReport& report) {
  if (report.plan.fits().value_or(true)) return;
  const std::string memory = format_bytes(report.plan.device_memory_bytes);
  if (report.fit.devices_for_states > report.job.layout.devices()) {
    report.ways.push_back({"at least " + counted(report.fit.devices_for_states, "device"),
                           "states alone take as many of " + memory +
                               ", shared by all; activations and buffers come on top",
                           "memory_bytes"});
  }
  const std::string what = report.job.states_only ? " of states alone" : "";
  for (const planner::WayToFit& way : report.fit.ways) {
    report.ways.push_back({way.flags,
                           counted(way.devices, "device") +
                               (way.devices == 1 ? " then holds " : " then hold ") +
                               format_bytes(way.total_bytes) + what + " of " + memory +
                               (way.devices == 1 ? "" : " each"),
                           "docs/planning.md, memory"});
  }
  if (report.fit.ways.empty()) {
    report.ways.push_back({"a smaller model or longer pipelines",
                           "neither sharing, offloading nor splitting layers as usual makes it fit",
                           "docs/planning.md, memory"});
  }
}

}  // namespace

double train_seconds(const ClusterReport& report) {
  const double samples_per_s = report.plan.samples_per_s;
  return samples_per_s > 0 ? planner::samples_of_training(report.job) / samples_per_s : 0;
}

ClusterReport make_cluster_report(planner::ClusterJob job, ClusterQuestions questions) {
  ClusterReport report;
  report.job = std::move(job);
  report.questions = std::move(questions);
  for (const std::string& one : report.questions.assumptions) {
    report.job.assumptions.push_back(one);
  }
  if (report.questions.search) search(report);
  report.plan = planner::plan_cluster(report.job);
  if (!report.plan.fits().value_or(true)) report.fit = planner::ways_to_fit(report.job);
  say_what_fits(report);
  judge_distribution(report);
  judge_failures(report);
  judge_time(report);
  fill_deepspeed(report);
  return report;
}

}  // namespace lockstep::cli
