// Ranks on two hosts, in two network namespaces of this machine: the same numbers as on one, and an
// end with a name when the cable between them is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/front_ranks.h"
#include "tests/support/network_pair.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr const char* kRun = R"([model]
family = "mlp"
layers = 2
width = 128
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[data]
format = "synthetic"
train_samples = 190
[batch]
global_batch = 16
[parallel]
virtual_ranks = 4
bucket_mib = 0.1
first_bucket_mib = 0.05
[run]
)";

// Who waits for the kernel's word of a lost connection (3.5 s) and then ends in order.
constexpr std::chrono::seconds kNoticed{5};
constexpr std::chrono::seconds kSlowMachine{3};

class TwoHosts : public testing::Test {
 protected:
  void write_run(const std::string& length) {
    write_file(folder_ / "run.toml", kRun + length + "\n");
  }

  std::vector<std::string> command(const std::string& run_dir) {
    return {program("lockstep"), "train",     folder_ / "run.toml",
            "--quiet",           "--run-dir", folder_ / run_dir};
  }

  /// Four ranks as torchrun starts them, two on each host; the first serves the store.
  void start_ranks(const std::string& run_dir) {
    for (int rank = 0; rank < 4; ++rank) {
      const int host = rank / 2;
      ProgramOptions options;
      options.extra_env = {"RANK=" + std::to_string(rank),
                           "WORLD_SIZE=4",
                           "LOCAL_RANK=" + std::to_string(rank % 2),
                           "LOCAL_WORLD_SIZE=2",
                           "MASTER_ADDR=" + NetworkPair::address(0),
                           "MASTER_PORT=29500",
                           std::string("LOCKSTEP_HOST_ID=") + (host == 0 ? "left" : "right")};
      ranks_.push_back(
          std::make_unique<RunningProgram>(network_.on_host(host, command(run_dir)), options));
    }
  }

  std::string hash(const std::string& run_dir) {
    const std::string text = read_file(folder_ / (run_dir + "/summary.json"));
    return nlohmann::json::parse(text, nullptr, false).value("state_sha256", "none");
  }

  TemporaryFolder folder_;
  NetworkPair network_;
  std::vector<std::unique_ptr<RunningProgram>> ranks_;
};

TEST_F(TwoHosts, TwoRanksOnEachEndInTheStateOfFourRanksOnOne) {
  write_run("steps = 40");
  std::vector<std::string> one_host = command("one");
  one_host.insert(one_host.end(), {"--nproc-per-node", "4"});
  const ProgramResult one = run_program(one_host);
  ASSERT_EQ(one.exit_code, 0) << one.describe();
  start_ranks("two");
  for (const auto& rank : ranks_) {
    const ProgramResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.describe();
  }
  EXPECT_EQ(hash("two").size(), 64U);
  EXPECT_EQ(hash("two"), hash("one"));
}

TEST_F(TwoHosts, ACutCableEndsEveryRankNamingTheOtherSide) {
  write_run("steps = 1000000");
  start_ranks("cut");
  const std::string events = folder_ / "cut/events.jsonl";
  ASSERT_TRUE(eventually([&] {
    const std::string text = read_file(events);
    return std::count(text.begin(), text.end(), '\n') > 5;
  })) << ranks_.front()->err_so_far();
  network_.cut();
  const auto cut = Clock::now();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ProgramResult result = ranks_[rank]->wait();
    EXPECT_EQ(result.exit_code, 5) << result.describe();
    EXPECT_THAT(result.err, HasSubstr(rank < 2 ? "has lost host right (ranks 2 and 3)"
                                               : "has lost host left (ranks 0 and 1)"));
  }
  const auto took = Clock::now() - cut;
  EXPECT_LT(took, kNoticed + kSlowMachine);
  RecordProperty("noticed_ms", static_cast<int>(took / std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace lockstep::test
