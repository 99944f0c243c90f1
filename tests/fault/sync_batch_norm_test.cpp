// Whole runs whose ranks share the statistics of batch normalisation: what they send is what was
// planned, and no rank waits for one that has no samples, leaves or dies.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

class SyncBatchNormRun : public TinyRunTest {
 protected:
  SyncBatchNormRun() : TinyRunTest({}) {
    write_file(folder_ / "run.toml",
               "[model]\nfamily = \"resnet\"\ndepth = 20\nimage_size = 8\n"
               "[data]\nformat = \"synthetic\"\ntrain_samples = 13\n"
               "[batch]\nglobal_batch = 12\naccumulation = 2\n"
               "[parallel]\nsync_batch_norm = true\n[optimizer]\nlr = 0.01\n");
  }

  [[nodiscard]] std::vector<std::string> on_two_ranks(
      const std::vector<std::string>& settings) const {
    std::vector<std::string> words{"--nproc-per-node", "2"};
    const auto sets = set_words(settings);
    words.insert(words.end(), sets.begin(), sets.end());
    return command(words);
  }
};

TEST_F(SyncBatchNormRun, SendsWhatWasPlannedAndEndsUnevenEpochs) {
  // Every second step has one sample for the two ranks, which run two micro-batches each.
  const ProgramResult result = run_program(on_two_ranks({"run.epochs=3"}));
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto summary = nlohmann::json::parse(read_file(folder_ / "run/summary.json"));
  EXPECT_EQ(summary.at("steps"), 6);
  const auto& bytes = summary.at("comm_bytes");
  EXPECT_EQ(bytes.at("measured"), bytes.at("planned"));
  const auto& memory = summary.at("memory").at("communication");
  EXPECT_EQ(memory.at("measured_bytes"), memory.at("planned_bytes"));
}

TEST_F(SyncBatchNormRun, OneRankThatIsToldToStopStopsAllWithTheStateSaved) {
  RunningProgram front(on_two_ranks({"run.steps=1000000"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front.err_so_far();
  const int rank = find_rank(front.pid(), 1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGTERM);
  const ProgramResult result = front.wait();
  EXPECT_EQ(result.exit_code, 75) << result.describe();
}

TEST_F(SyncBatchNormRun, ARankThatIsKilledIsNamed) {
  RunningProgram front(on_two_ranks({"run.steps=1000000"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front.err_so_far();
  const int rank = find_rank(front.pid(), 1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGKILL);
  const ProgramResult result = front.wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_NE(result.err.find("rank 1 was killed by SIGKILL"), std::string::npos)
      << result.describe();
}

TEST_F(SyncBatchNormRun, MoreVirtualRanksThanRanksAreRefused) {
  const ProgramResult result =
      run_program(on_two_ranks({"parallel.virtual_ranks=4", "batch.accumulation="}));
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("error LS-6012: virtual_ranks = 4 promises equal bits on any number of "
                            "ranks, but statistics over all ranks depend on that number (2)\n"
                            "  fix: start 4 ranks, or drop sync_batch_norm or virtual_ranks\n"),
            std::string::npos)
      << result.describe();
}

}  // namespace
}  // namespace lockstep::test
