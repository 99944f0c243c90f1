// A rank that is slower than the others, found from outside though all steps take equally long.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/lone_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

/// Lets a process run for half of the time only.
class Brake {
 public:
  explicit Brake(int pid) : pid_(pid), thread_([this] { press(); }) {}
  Brake(const Brake&) = delete;
  Brake& operator=(const Brake&) = delete;
  ~Brake() {
    released_ = true;
    thread_.join();
  }

 private:
  void press() const {
    while (!released_) {
      for (const int signal : {SIGSTOP, SIGCONT}) {
        ::kill(pid_, signal);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  int pid_;
  std::atomic<bool> released_{false};
  std::thread thread_;
};

class Straggler : public TinyRunTest {
 protected:
  Straggler()
      : TinyRunTest({.run = "name = \"slow\"\nsteps = 10000000\n",
                     .more = "[optimizer]\nname = \"sgd\"\nlr = 0.01\n"}) {}

  /// The lines of events.jsonl with this key.
  [[nodiscard]] std::vector<json> events_with(const char* key) const {
    std::vector<json> events;
    std::istringstream lines(read_file(folder_ / "run/events.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      if (line.find('"' + std::string(key) + '"') == std::string::npos) continue;
      json event = json::parse(line);
      if (event.contains(key)) events.push_back(std::move(event));
    }
    return events;
  }
};

TEST_F(Straggler, IsNamedByRankWithWhatTheOtherWaits) {
  // Ranks without a front: it would give up one that it finds stopped a few times.
  const LoneRanks ranks(2, command());
  ASSERT_TRUE(eventually([&] { return has_done_step(20); })) << ranks[0].err_so_far();
  {
    const Brake brake(ranks[1].pid());
    const auto is_named = [&] {
      return read_file(folder_ / "run/events.jsonl").find("{\"straggler\"") != std::string::npos;
    };
    EXPECT_TRUE(eventually(is_named, std::chrono::milliseconds(50)));
    ranks[0].send_signal(SIGTERM);
  }
  const ProgramResult result = ranks[0].wait();
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  const std::vector<json> events = events_with("straggler");
  ASSERT_FALSE(events.empty());
  const json& told = events.front().at("straggler");
  EXPECT_EQ(told.at("rank"), 1);
  EXPECT_GT(told.at("share").get<double>(), 0.1);
  EXPECT_GT(told.at("others_wait_s").get<double>(), 0);
  EXPECT_FALSE(told.at("host").get<std::string>().empty());
  EXPECT_LE(events.size(), 4U) << "it is not repeated all the time";
  const std::string& out = result.out;
  EXPECT_NE(out.find("rank 1 (host "), std::string::npos) << out;
  EXPECT_NE(out.find("longer than rank 0, mostly in "), std::string::npos) << out;
  EXPECT_NE(out.find("slowest rank"), std::string::npos) << out;
  const json summary = json::parse(read_file(folder_ / "run/summary.json"));
  EXPECT_EQ(summary.at("straggler").at("rank"), 1);
  EXPECT_EQ(summary.at("per_rank").at("compute_s").size(), 2U);
}

TEST_F(Straggler, EveryStepTellsTheTimesOfItsBucketsInOrder) {
  const ProgramResult result = run_program(
      command({"--nproc-per-node", "2", "--set", "run.steps=30", "--set", "model.width=200",
               "--set", "parallel.first_bucket_mib=0.01", "--set", "parallel.bucket_mib=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const std::vector<json> steps = events_with("buckets");
  ASSERT_EQ(steps.size(), 30U);
  for (const json& step : steps) {
    double last_issued_s = 0;
    for (const json& bucket : step.at("buckets")) {
      const double ready_s = bucket.at("ready_s");
      const double issued_s = bucket.at("issued_s");
      const double done_s = bucket.at("done_s");
      constexpr double kRounding = 1e-6;
      EXPECT_GT(ready_s, 0) << bucket;
      EXPECT_LE(ready_s, issued_s + kRounding) << bucket;
      EXPECT_LE(issued_s, done_s + kRounding) << bucket;
      EXPECT_LE(last_issued_s, issued_s) << bucket;
      EXPECT_GE(bucket.at("wait_s").get<double>(), 0) << bucket;
      EXPECT_LE(done_s, step.at("step_s").get<double>() + kRounding) << bucket;
      EXPECT_GT(bucket.at("bytes").get<std::int64_t>(), 0) << bucket;
      last_issued_s = issued_s;
    }
  }
}

}  // namespace
}  // namespace lockstep::test
