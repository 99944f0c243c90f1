// A rank that stops in mid run, seen from outside.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/lone_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

const TinyRun kRun{.run = "name = \"watched\"\nsteps = 10000000\n",
                   .more = "[optimizer]\nname = \"sgd\"\nlr = 0.01\n"};

/// A training run on two ranks over `backend`, once it is in its steps. They have no front, which
/// would give up a stopped rank.
class WatchedRun {
 public:
  explicit WatchedRun(const std::string& backend) {
    write_file(folder_ / "run.toml", to_toml(kRun));
    ranks_.emplace(2,
                   std::vector<std::string>{program("lockstep"), "train", folder_ / "run.toml",
                                            "--quiet", "--run-dir", folder_ / "run"},
                   std::vector<std::string>{"LOCKSTEP_BACKEND=" + backend});
    EXPECT_TRUE(eventually([&] {
      return read_file(folder_ / "run/events.jsonl").find("\"step\":3,") != std::string::npos;
    })) << rank(0).err_so_far();
  }

  [[nodiscard]] ProgramResult watch() const {
    return run_program(
        {program("lockstep"), "doctor", "watch", folder_ / "run", "--once", "--json"});
  }
  [[nodiscard]] bool goes_on() const {
    const auto before = read_file(folder_ / "run/events.jsonl").size();
    return eventually([&] { return read_file(folder_ / "run/events.jsonl").size() > before; });
  }
  [[nodiscard]] RunningProgram& rank(std::size_t r) const { return (*ranks_)[r]; }

 private:
  TemporaryFolder folder_;
  std::optional<LoneRanks> ranks_;
};

class DoctorWatchFault : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, DoctorWatchFault, testing::Values("gloo", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DoctorWatchFault, ARankStoppedInMidRunIsNamedAndLetGoTheRunComesToItsEnd) {
  const WatchedRun run(GetParam());
  const ProgramResult healthy = run.watch();
  EXPECT_EQ(healthy.exit_code, 0) << healthy.describe();

  run.rank(1).send_signal(SIGSTOP);
  ProgramResult stopped;
  EXPECT_TRUE(eventually([&] {  // the other rank runs into its next collective meanwhile
    stopped = run.watch();
    return stopped.exit_code == 1 && stopped.out.find("waited for") != std::string::npos;
  })) << stopped.describe();
  const json document = json::parse(stopped.out);
  EXPECT_EQ(document.at("verdict").at("kind"), "stopped");
  EXPECT_EQ(document.at("verdict").at("ranks"), json::array({1}));
  EXPECT_EQ(document.at("verdict").at("collective").at("group"), "world");
  const std::string text = document.at("verdict").at("text");
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("process " + std::to_string(run.rank(1).pid()) + ", state T"),
            std::string::npos)
      << text;
  EXPECT_EQ(document.at("ranks").at(1).at("process_state"), "T");

  run.rank(1).send_signal(SIGCONT);
  EXPECT_TRUE(run.goes_on());
  EXPECT_EQ(run.watch().exit_code, 0);
  run.rank(0).send_signal(SIGTERM);
  for (const std::size_t r : {0U, 1U}) {
    const ProgramResult result = run.rank(r).wait();
    EXPECT_EQ(result.exit_code, 75) << result.describe();
  }
  const ProgramResult ended = run.watch();
  EXPECT_EQ(ended.exit_code, 0) << ended.describe();
  EXPECT_EQ(json::parse(ended.out).at("verdict").at("kind"), "finished");
}

}  // namespace
}  // namespace lockstep::test
