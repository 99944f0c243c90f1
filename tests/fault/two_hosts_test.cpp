// Ranks on two hosts, in two network namespaces of this machine: the same numbers as on one, and an
// end with a name when the cable between them is cut, and only then.
#include "tests/support/two_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/network_pair.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

using testing::ContainsRegex;
using Clock = std::chrono::steady_clock;

// How long the cable is bad; `make soak` takes five minutes.
const std::chrono::seconds kSoak(std::getenv("LOCKSTEP_TEST_BAD_CABLE_S") != nullptr
                                     ? std::atoi(std::getenv("LOCKSTEP_TEST_BAD_CABLE_S"))
                                     : 1);

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

// From the moment that nothing passes any more to the error, and to the end of the process.
constexpr std::chrono::seconds kNoticed{5};
constexpr std::chrono::seconds kSlowMachine{10};

class TwoHosts : public testing::Test {
 protected:
  explicit TwoHosts(Cable cable = Cable::good) : network_(cable) {}

  void write_run(const std::string& length) {
    write_file(folder_ / "run.toml", kRun + length + "\n");
  }

  std::vector<std::string> command(const std::string& run_dir) {
    return {program("lockstep"), "train",     folder_ / "run.toml",
            "--quiet",           "--run-dir", folder_ / run_dir};
  }

  void start_ranks(const std::string& run_dir, int on_each = 2) {
    ProgramOptions options;
    options.deadline = kSoak + std::chrono::seconds(120);
    for (auto& rank : start_on_two_hosts(network_, on_each, command(run_dir), options)) {
      ranks_.push_back(std::move(rank));
    }
  }

  /// Two jobs that train until they are stopped: over Gloo, and over shared memory and Gloo.
  void start_both() {
    write_run("steps = 1000000");
    start_ranks("pair", 1);
    start_ranks("four", 2);
    ASSERT_TRUE(eventually([&] { return steps("pair") > 5 && steps("four") > 5; }))
        << ranks_.front()->err_so_far() << ranks_.back()->err_so_far();
  }

  std::ptrdiff_t steps(const std::string& run_dir) {
    const std::string text = read_file(folder_ / (run_dir + "/events.jsonl"));
    return std::count(text.begin(), text.end(), '\n');
  }

  /// \pre start_both(). \param since when the hosts have lost each other.
  void expect_all_name_the_other_side(Clock::time_point since) {
    // Where only one direction is dead, a side may also hear how the other one ends.
    const char* const pair[] = {"rank 1 (.process|has ended)", "rank 0 (.process|has ended)"};
    const char* const four[] = {"has lost host right .ranks 2 and 3.|ranks? [23].* ended",
                                "has lost host left .ranks 0 and 1.|ranks? [01].* ended"};
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const ProgramResult result = ranks_[i]->wait();
      EXPECT_EQ(result.exit_code, 5) << result.describe();
      EXPECT_THAT(result.err, ContainsRegex(i < 2 ? pair[i] : four[(i - 2) / 2]));
    }
    const auto took = Clock::now() - since;
    EXPECT_LT(took, kNoticed + kSlowMachine);
    RecordProperty("noticed_ms", static_cast<int>(took / std::chrono::milliseconds(1)));
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
  start_both();
  const auto cut = Clock::now();
  network_.cut();
  expect_all_name_the_other_side(cut);
}

class TwoHostsOverABadCable : public TwoHosts {
 protected:
  TwoHostsOverABadCable() : TwoHosts(Cable::relayed) {}
};

TEST_F(TwoHostsOverABadCable, LossAndDelayAreNoFaultButADeadDirectionIs) {
  start_both();
  network_.relay().set({.delay = std::chrono::milliseconds(100), .loss = 0.05});
  auto seen = std::pair(steps("pair"), steps("four"));
  for (const auto end = Clock::now() + kSoak; Clock::now() < end;) {
    ASSERT_TRUE(eventually([&] {
      return steps("pair") > seen.first && steps("four") > seen.second;
    })) << ranks_.front()->err_so_far()
        << ranks_.back()->err_so_far();
    seen = std::pair(steps("pair"), steps("four"));
  }
  const auto dead = Clock::now();
  network_.relay().block(1);  // what the second host sends
  expect_all_name_the_other_side(dead);
}

}  // namespace
}  // namespace lockstep::test
