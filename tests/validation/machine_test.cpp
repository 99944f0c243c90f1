// Plans of this planner beside what runs of one machine measured (benchmarks/validate_plans.py).
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/plan/plan_bars.h"
#include "lockstep/planner/machine_runs.h"
#include "lockstep/planner/planner.h"
#include "tests/support/source_text.h"

namespace lockstep::planner {
namespace {

using test::source_text;

const std::vector<MachineRun>& runs() {
  static const std::vector<MachineRun> read =
      read_machine_runs(source_text("tests/validation/machine_runs.csv"));
  return read;
}

/// Synthetic data takes no memory. Times go by the rates of a typical core, which are of the
/// machine that the runs were measured on.
MachineRun planned_today(const MachineRun& run) {
  Host host;
  host.cores = run.cores;
  const parallel::ParallelPlan plan = make_plan(run.config, host, run.ranks, /*data_bytes=*/0);
  MachineRun today = run;
  today.planned.memory = plan.memory;
  today.planned.comm_bytes = plan.comm_bytes_per_step;
  today.planned.step_s = plan.step_s;
  return today;
}

TEST(MachineRuns, CoverModelsRanksAndPrecisions) {
  int of_four_ranks = 0;
  for (const MachineRun& run : runs()) of_four_ranks += run.ranks == 4 ? 1 : 0;
  EXPECT_GE(runs().size(), 40U);
  EXPECT_GE(of_four_ranks, 10);
}

TEST(MachineRuns, TakeTheMemoryThatIsPlannedInEveryCategory) {
  for (const MachineRun& run : runs()) {
    EXPECT_EQ(outside_memory_bar(planned_today(run)), "") << run.name;
  }
}

TEST(MachineRuns, SendTheBytesThatArePlanned) {
  for (const MachineRun& run : runs()) {
    EXPECT_EQ(planned_today(run).planned.comm_bytes, run.measured.comm_bytes) << run.name;
  }
}

TEST(MachineRuns, TakeTheTimeThatIsPlanned) {
  for (const MachineRun& run : runs()) {
    const double planned_s = planned_today(run).planned.step_s;
    EXPECT_TRUE(parallel::keeps_time(planned_s, run.measured.step_s))
        << run.name << ": planned " << planned_s << " s, measured " << run.measured.step_s << " s";
  }
}

TEST(MachineRuns, AreInTheDocumentWithTodaysPlans) {
  std::vector<MachineRun> today;
  for (const MachineRun& run : runs()) today.push_back(planned_today(run));
  EXPECT_NE(source_text("docs/validation.md").find(machine_validation(today)), std::string::npos)
      << "run benchmarks/validate_plans.py --replan, build oracle_programs, run "
         "build/release/bin/oracles/runs_of_machine and put its output between the machine marks "
         "of docs/validation.md";
}

TEST(MachineRuns, ThatCannotBeReadAreNamed) {
  std::string csv = source_text("tests/validation/machine_runs.csv");
  const std::string name = runs().front().name;
  const std::size_t settings = csv.find("batch.micro_batch", csv.find(name));
  ASSERT_NE(settings, std::string::npos);
  csv.replace(settings, 17, "batch.micro_patch");
  try {
    (void)read_machine_runs(csv);
    FAIL() << "a key that is none";
  } catch (const BadData& error) {
    EXPECT_TRUE(error.problems().front().where.starts_with(name)) << error.problems().front().where;
  }
}

TEST(MachineRuns, OutsideTheBarAreToldByCategory) {
  MachineRun run;
  run.measured.memory.runtime = 300'000'000;
  run.planned.memory.runtime = 260'000'000;
  run.measured.memory.activations = 1'000'000'000;
  run.planned.memory.activations = 1'049'000'000;  // within 5 %
  run.measured.memory.buffers = 33'000'000;        // within 32 MiB
  EXPECT_EQ(outside_memory_bar(run), "runtime planned 260 MB, measured 300 MB");
}

}  // namespace
}  // namespace lockstep::planner
