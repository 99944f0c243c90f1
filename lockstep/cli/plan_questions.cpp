#include "lockstep/cli/plan_questions.h"

#include <array>
#include <filesystem>
#include <span>
#include <string_view>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/block_runs.h"
#include "lockstep/planner/step_events.h"
#include "lockstep/planner/step_trace.h"

namespace lockstep::cli {
namespace {

constexpr double kUsualCheckpoint = 30;      // seconds that training stands still for one
constexpr double kUsualRestart = 10 * 60;    // seconds until steps run again
constexpr double kMostTimelineEvents = 1e6;  // 100 MB of text

/// What a search chooses.
constexpr auto kSearched = std::to_array<std::string_view>(
    {"--zero",         "--data",      "--tensor",   "--pipeline",          "--context",
     "--expert",       "--tables",    "--sequence", "--keep-gathered",     "--schedule",
     "--chunks",       "--cuts",      "--shard",    "--secondary-shard",   "--micro-batch",
     "--accumulation", "--recompute", "--offload",  "--offload-optimizer", "--offload-parameters"});

constexpr auto kDurations = std::to_array<std::string_view>(
    {"--need-within", "--mtbf", "--checkpoint-cost", "--restart-time"});

bool names_device(const Args& args) { return args.has("--gpu") || args.has("--cluster"); }

/// 0 where the flag is not given.
double seconds(const Args& args, std::string_view flag, double otherwise = 0) {
  if (!args.has(flag)) return otherwise;
  return parse_duration_s(args.text(flag)).value_or(otherwise);
}

void check_durations(const Args& args, std::vector<Problem>& problems) {
  for (const std::string_view flag : kDurations) {
    if (!args.has(flag) || seconds(args, flag) > 0) continue;
    problems.push_back({"LS-1013", std::string(flag), "cannot be " + args.text(flag).substr(0, 64),
                        "use a duration above 0 in s, min, h, d or w, such as 3d or 90min"});
  }
}

void need(const Args& args, std::string_view flag, bool there, const char* what, const char* fix,
          std::vector<Problem>& problems) {
  if (!args.has(flag) || there) return;
  problems.push_back({"LS-1013", std::string(flag), what, fix});
}

void contradict(const Args& args, std::string_view flag, std::string_view other, const char* why,
                std::vector<Problem>& problems) {
  if (!args.has(flag) || !args.has(other)) return;
  problems.push_back({"LS-1020", std::string(flag),
                      "contradicts " + std::string(other) + ": " + why, "keep one of the two"});
}

}  // namespace

void check_questions(const Args& args, std::vector<Problem>& problems) {
  check_durations(args, problems);
  for (const std::string_view flag : kSearched) {
    contradict(args, flag, "--search", "the search chooses it", problems);
  }
  contradict(args, "--states-only", "--search", "layouts are ranked by the time of a step",
             problems);
  contradict(args, "--states-only", "--timeline", "times are not asked for", problems);
  const char* device = "add --gpu A100-80G or --cluster 8xA100-80G";
  need(args, "--search", names_device(args), "ranks layouts by time and memory, of which device?",
       device, problems);
  need(args, "--timeline", names_device(args), "shows the times of a step, of which device?",
       device, problems);
  need(args, "--need-within", args.has("--tokens") || args.has("--samples"),
       "says when, but how much is trained?",
       "add --tokens 300e9, or for samples without tokens --samples 115e6", problems);
  for (const std::string_view flag : {"--checkpoint-cost", "--restart-time"}) {
    need(args, flag, args.has("--mtbf"), "matters when devices fail, and how often do they?",
         "add --mtbf, the mean time between failures of one device, such as 2000d", problems);
  }
}

ClusterQuestions read_questions(const Args& args) {
  ClusterQuestions questions;
  questions.search = args.has("--search");
  questions.need_within_s = seconds(args, "--need-within");
  questions.timeline = args.text("--timeline");
  planner::TrainingFacts& facts = questions.facts;
  facts.need_within_s = questions.need_within_s;
  facts.searched = questions.search;
  facts.data_bytes = static_cast<double>(parse_bytes(args.text("--data-bytes")).value_or(0));
  facts.cores_per_host = static_cast<int>(args.integer("--cores").value_or(0));
  facts.control_flow = args.has("--control-flow");
  if (!args.has("--mtbf")) return questions;
  planner::GoodputQuestion failures;
  failures.unit_mtbf_s = seconds(args, "--mtbf");
  failures.checkpoint_s = seconds(args, "--checkpoint-cost", kUsualCheckpoint);
  failures.restart_s = seconds(args, "--restart-time", kUsualRestart);
  questions.failures = failures;
  if (!args.has("--checkpoint-cost")) {
    questions.assumptions.push_back("a checkpoint stops training for " +
                                    format_duration(kUsualCheckpoint) + " (--checkpoint-cost)");
  }
  if (!args.has("--restart-time")) {
    questions.assumptions.push_back("after a failure steps run again in " +
                                    format_duration(kUsualRestart) + " (--restart-time)");
  }
  return questions;
}

void write_timeline(const planner::ClusterJob& job, const planner::ClusterPlan& plan,
                    const std::string& file) {
  const parallel::Layout& layout = job.layout;
  const parallel::StepParts parts =
      parallel::step_parts(parallel::block_runs(job.model), layout, *job.recipe, *job.machine,
                           planner::time_stack_of(job));
  const double events = planner::most_events(parts, layout);
  if (events > kMostTimelineEvents) {
    throw UsageError({{"LS-1013", "--timeline",
                       "would have " + format_short(events) + " events, and a viewer takes " +
                           format_short(kMostTimelineEvents),
                       "plan a smaller --accumulation: micro-batches repeat"}});
  }
  const planner::StepEvents step = planner::simulate_step(parts, layout, plan.loading_s);
  const std::string text = planner::chrome_trace(step, layout.devices() / layout.pipeline);
  try {
    AtomicFile whole(file);
    whole.write(std::as_bytes(std::span(text.data(), text.size())));
    whole.commit();
  } catch (const std::filesystem::filesystem_error& error) {
    throw EnvironmentFault({"LS-6116", file, "cannot be written: " + error.code().message(),
                            "name a file in a folder that is there and writable"});
  }
}

}  // namespace lockstep::cli
