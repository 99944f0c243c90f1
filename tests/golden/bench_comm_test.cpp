// `lockstep bench comm`, from the command line to its files.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> command(const TemporaryFolder& folder,
                                 const std::vector<std::string>& flags) {
  std::vector<std::string> argv{program("lockstep"), "bench", "comm", "--out", folder / "out"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

ProgramResult bench(const TemporaryFolder& folder, const std::vector<std::string>& flags,
                    std::vector<std::string> env = {}) {
  env.emplace_back("LC_ALL=C");
  return run_program(command(folder, flags), {.extra_env = env});
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

void expect_times(const json& row, const char* key) {
  const json& times = row.at(key);
  EXPECT_GT(times.at("min").get<double>(), 0) << row;
  EXPECT_GE(times.at("median").get<double>(), times.at("min").get<double>()) << row;
  EXPECT_GE(times.at("max").get<double>(), times.at("median").get<double>()) << row;
}

TEST(BenchComm, JsonGivesOneLineASizeWithTheKeysOfTheContract) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--ranks", "2", "--backend", "gloo", "--sizes", "4,1Ki", "--iterations", "3",
                     "--rounds", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto rows = lines_of(result.out);
  ASSERT_EQ(rows.size(), 2U);
  for (const json& row : rows) {
    EXPECT_EQ(row.at("op"), "all_reduce");
    EXPECT_EQ(row.at("backend"), "gloo");
    EXPECT_EQ(row.at("ranks"), 2);
    expect_times(row, "time_us");
    EXPECT_GT(row.at("algbw_gbs").get<double>(), 0);
    EXPECT_EQ(row.at("busbw_gbs"), row.at("algbw_gbs")) << "the factor of two ranks is 1";
    EXPECT_EQ(row.at("rounds").size(), 2U);
    EXPECT_FALSE(row.at("regime").get<std::string>().empty());
  }
  EXPECT_EQ(rows[0].at("bytes"), 4);
  EXPECT_EQ(rows[1].at("bytes"), 1024);
  EXPECT_EQ(read_file(folder / "out/comm.jsonl"), result.out);
  EXPECT_NE(result.err.find("round 2 of 2"), std::string::npos) << result.err;
}

TEST(BenchComm, BothSidesAreTimedAndCompared) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--op", "all_gather,barrier", "--op", "broadcast,reduce_scatter", "--backend",
                     "gloo", "--against", "gloo", "--sizes", "64", "--iterations", "3", "--rounds",
                     "1", "--warmup", "1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto rows = lines_of(result.out);
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    EXPECT_EQ(rows[i].at("against"), "gloo");
    expect_times(rows[i], "against_time_us");
    EXPECT_GT(rows[i].at("ratio").get<double>(), 0);
    EXPECT_EQ(rows[i + 1].at("time_us"), rows[i].at("against_time_us"));
    EXPECT_FALSE(rows[i + 1].contains("ratio"));
  }
  EXPECT_EQ(rows[2].at("op"), "barrier");
  EXPECT_EQ(rows[2].at("bytes"), 0);
}

TEST(BenchComm, HalvesOfTheRanksCanBeTwoHosts) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--ranks", "4", "--backend", "shm+gloo", "--op", "all_reduce,broadcast",
                     "--sizes", "256Ki", "--iterations", "2", "--rounds", "1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto rows = lines_of(result.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].at("backend"), "shm+gloo");
  EXPECT_EQ(rows[1].at("op"), "broadcast");
}

TEST(BenchComm, PeopleGetATableAndAPlotOfEachRankCount) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(folder, {"--ranks", "1,2", "--backend", "gloo", "--sizes",
                                              "4,1Ki", "--iterations", "2", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_NE(result.out.find("all_reduce fp32, 1 rank, gloo"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("all_reduce fp32, 2 ranks, gloo"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("@ gloo"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("regime:"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(BenchComm, WrongWordsAreUsageErrorsWithTheNearestName) {
  const TemporaryFolder folder;
  const ProgramResult result =
      bench(folder, {"--op", "allreduce", "--backend", "glo", "--sizes", "0", "--json"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  const json errors = json::parse(result.out).at("errors");
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0].at("fix"), "did you mean gloo?");
  EXPECT_EQ(errors[1].at("fix"), "did you mean all_reduce?");
  EXPECT_EQ(errors[2].at("where"), "--sizes");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(BenchComm, WithoutMpirunTheMachineIsAtFaultAndThePackagesAreNamed) {
  const TemporaryFolder folder;
  const ProgramResult result = bench(folder, {"--against", "mpi"}, {"PATH=/nonexistent"});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("openmpi-bin"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("make build"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder / "out"));
}

/// A folder with our programs, and an mpirun of the test's own.
class FakeMpi {
 public:
  explicit FakeMpi(const std::string& mpirun) {
    fs::copy_file(program("lockstep"), folder_ / "lockstep");
    fs::create_symlink(program("lockstep-worker"), folder_ / "lockstep-worker");
    add_script("lockstep-mpi-peer", "exit 1");
    add_script("mpirun", mpirun);
  }

  [[nodiscard]] ProgramResult bench() const {
    return run_program(
        {folder_ / "lockstep", "bench", "comm", "--backend", "gloo", "--against", "mpi", "--sizes",
         "4,1Ki", "--iterations", "2", "--rounds", "2", "--out", folder_ / "out", "--json"},
        {.extra_env = {"PATH=" + folder_.path().string() + ":/usr/bin:/bin"}});
  }
  [[nodiscard]] std::string out() const { return folder_ / "out"; }

 private:
  void add_script(const std::string& name, const std::string& body) const {
    write_file(folder_ / name, "#!/bin/sh\n" + body + "\n");
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }

  TemporaryFolder folder_;
};

TEST(BenchComm, APeerProgramRunsOnceARoundBetweenOurs) {
  const FakeMpi mpi(R"(while [ "$1" != -np ]; do shift; done
echo "a banner that is no report"
round=$4 op=$7
shift 7
for bytes in "$@"; do
  echo '{"side":"theirs","op":"'$op'","bytes":'$bytes',"round":'$round',"time_us":{"min":1,'\
'"median":'$round',"max":9},"slowest_us":2}'
done)");
  const ProgramResult result = mpi.bench();
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto rows = lines_of(result.out);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[3].at("backend"), "mpi");
  EXPECT_EQ(rows[3].at("bytes"), 1024);
  EXPECT_EQ(rows[2].at("against"), "mpi");
  EXPECT_EQ(rows[2].at("rounds").at(0).at("against_median_us"), 1);
  EXPECT_EQ(rows[2].at("rounds").at(1).at("against_median_us"), 2);
  EXPECT_GT(rows[2].at("ratio").get<double>(), 0);
}

TEST(BenchComm, AnMpirunThatFailsIsQuoted) {
  const FakeMpi mpi("echo 'not enough slots' >&2; exit 7");
  const ProgramResult result = mpi.bench();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_NE(result.out.find("not enough slots"), std::string::npos) << result.out;
  EXPECT_NE(read_file(mpi.out() + "/ranks-2/round-1/mpirun.log").find("not enough slots"),
            std::string::npos);
}

TEST(BenchComm, StoppedItEndsAsFailedAndSaysSo) {
  const TemporaryFolder folder;
  RunningProgram running(command(folder, {"--backend", "gloo", "--rounds", "100000"}));
  ASSERT_TRUE(eventually([&] {
    return running.out_so_far().find("round 1 of") != std::string::npos;
  })) << running.err_so_far();
  running.send_signal(SIGINT);
  const ProgramResult result = running.wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_NE(result.err.find("was stopped"), std::string::npos) << result.describe();
}

}  // namespace
}  // namespace lockstep::test
