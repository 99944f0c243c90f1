// `lockstep doctor watch` on flight files that this test writes itself: its ranks are this process.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_folder.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

std::shared_ptr<comm::FlightRecorder> rank_in(const TemporaryFolder& folder, int rank) {
  auto recorder = std::make_shared<comm::FlightRecorder>(rank, 2);
  recorder->persist(comm::flight_file(folder.path(), rank), 1);
  return recorder;
}

ProgramResult watch(const TemporaryFolder& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {program("lockstep"), "doctor", "watch", folder.path()});
  return run_program(more);
}

TEST(DoctorWatch, AJobThatMovesIsHealthyAndEndsWithZero) {
  const TemporaryFolder folder;
  const auto first = rank_in(folder, 0);
  const auto second = rank_in(folder, 1);
  const auto result = watch(folder, {"--once"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(result.out.rfind("all 2 ranks move\n\nrank  pid ", 0), 0U) << result.out;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << "colours without a terminal";
}

TEST(DoctorWatch, RanksInDifferentCollectivesEndItWithOneAndAsJsonWithADocument) {
  const TemporaryFolder folder;
  const auto first = rank_in(folder, 0);
  const auto second = rank_in(folder, 1);
  (void)first->begin(first->add_group("world", 0, 2), "all_reduce", "float32", 4, 16, "bucket 0");
  (void)second->begin(second->add_group("world", 1, 2), "barrier", "", 0, 0, "the end");
  const auto result = watch(folder, {"--once", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_EQ(nlohmann::json::parse(result.out).at("verdict").at("text"),
            "ranks entered different collectives as #1 of group world: rank 0 all_reduce of 4 "
            "float32 (bucket 0); rank 1 barrier (the end)");
}

TEST(DoctorWatch, WithoutFlightFilesItIsAUsageErrorThatNamesThem) {
  const TemporaryFolder folder;
  const auto result = watch(folder, {"--once"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("error LS-4022: there is no " + (folder / "flight/rank-<rank>.ring")),
            std::string::npos)
      << result.err;
  write_file(folder / "flight", "");
  EXPECT_EQ(watch(folder, {}).exit_code, 2) << "not in the middle of a loop either";
}

TEST(DoctorWatch, GoesOnLookingUntilTheJobHasEnded) {
  const TemporaryFolder folder;
  const auto first = rank_in(folder, 0);
  const auto second = rank_in(folder, 1);
  RunningProgram watching(
      {program("lockstep"), "doctor", "watch", folder.path(), "--json", "--every", "0.1"});
  ASSERT_TRUE(eventually([&] {
    const std::string out = watching.out_so_far();
    return std::count(out.begin(), out.end(), '\n') >= 3;
  })) << watching.err_so_far();
  first->finish();
  second->finish();
  const auto result = watching.wait();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_NE(result.out.find("the job has ended: all 2 ranks finished"), std::string::npos);
}

TEST(DoctorWatch, EndsOnCtrlC) {
  const TemporaryFolder folder;
  const auto first = rank_in(folder, 0);
  const auto second = rank_in(folder, 1);
  RunningProgram watching({program("lockstep"), "doctor", "watch", folder.path()});
  ASSERT_TRUE(eventually([&] { return !watching.out_so_far().empty(); })) << watching.err_so_far();
  watching.send_signal(SIGINT);
  const auto result = watching.wait();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
}

}  // namespace
}  // namespace lockstep::test
