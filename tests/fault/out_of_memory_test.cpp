// batch.micro_batch = "auto": found in a run, remembered by the next, kept by one that goes on, and
// made smaller where the memory of a process does not suffice.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Micro-batches of 65,536 samples keep some 400 MB of activations on each of two ranks.
constexpr const char* kRun =
    "[run]\nsteps = 2\n"
    "[model]\nfamily = \"mlp\"\nlayers = 32\nwidth = 32\ninputs = 8\n"
    "[data]\nformat = \"synthetic\"\ntrain_samples = 131072\nprefetch = 1\n"
    "[batch]\nglobal_batch = 131072\nmicro_batch = \"auto\"\n"
    "[checkpoint]\nevery = 1\n";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class AutoMicroBatch : public testing::Test {
 protected:
  AutoMicroBatch() { write_file(folder_ / "run.toml", kRun); }

  [[nodiscard]] std::vector<std::string> command(const std::string& run_dir,
                                                 const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> argv{program("lockstep"), "train", folder_ / "run.toml",
                                  "--nproc-per-node",  "2",     "--run-dir",
                                  folder_ / run_dir};
    for (const auto& set : sets) argv.insert(argv.end(), {"--set", set});
    return argv;
  }

  ProgramResult train(const std::string& run_dir, const std::vector<std::string>& sets = {}) const {
    const ProgramResult result = run_program(command(run_dir, sets));
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    return result;
  }

  /// In a shell that gives each process so much address space.
  [[nodiscard]] ProgramResult train_within(std::int64_t kib, const std::string& run_dir,
                                           const std::vector<std::string>& sets) const {
    std::string line = "ulimit -v " + std::to_string(kib) + "; exec";
    for (const auto& word : command(run_dir, sets)) line += " " + word;
    return run_program({"/bin/sh", "-c", line});
  }

  [[nodiscard]] json read(const std::string& file) const {
    return json::parse(read_file(folder_ / file), nullptr, false);
  }
  [[nodiscard]] std::int64_t micro_batch(const std::string& run_dir) const {
    return read(run_dir + "/config.json").at("batch").at("micro_batch");
  }
  /// Of every step, in order.
  [[nodiscard]] std::vector<double> losses(const std::string& run_dir) const {
    std::vector<double> losses;
    std::istringstream lines(read_file(folder_ / (run_dir + "/events.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.contains("loss")) losses.push_back(event.at("loss"));
    }
    return losses;
  }

  /// The address space that a rank has taken at most while it trained in small micro-batches.
  [[nodiscard]] std::int64_t needed_kib() const {
    RunningProgram front(command("small", {"batch.micro_batch=1024", "run.steps=1000"}));
    std::int64_t kib = 0;
    (void)eventually([&] {
      const bool trains = has(read_file(folder_ / "small/events.jsonl"), "\"step\":2,");
      const std::string status =
          read_file("/proc/" + std::to_string(find_rank(front.pid(), 1)) + "/status");
      const auto at = status.find("VmPeak:");
      if (!trains || at == std::string::npos) return false;
      kib = std::stoll(status.substr(at + 7));
      return true;
    });
    return kib;
  }

  TemporaryFolder folder_;
};

TEST_F(AutoMicroBatch, IsFoundOnceAndRemembered) {
  const std::vector<std::string> small{"run.steps=1", "batch.global_batch=4096"};
  const ProgramResult first = train("first", small);
  EXPECT_TRUE(has(first.out, "predicted to take")) << first.out;
  EXPECT_TRUE(has(first.out, " probes (2,048: ")) << first.out;
  const std::int64_t found = micro_batch("first");
  EXPECT_EQ(2048 % found, 0);
  const json plan = read("first/plan.json");
  EXPECT_EQ(plan.at("batch").at("micro_batch"), found);
  EXPECT_EQ(plan.at("batch").at("accumulation"), 2048 / found);

  const ProgramResult second = train("second", small);
  EXPECT_TRUE(has(second.out, "as an earlier run found it")) << second.out;
  EXPECT_FALSE(has(second.out, "probes (")) << second.out;
  EXPECT_EQ(micro_batch("second"), found);
  EXPECT_EQ(losses("second"), losses("first"));
}

TEST_F(AutoMicroBatch, ThatTheSystemHasNoMemoryForIsMadeSmallerInTheStep) {
  const std::int64_t kib = needed_kib() + 150'000;
  train("run", {"batch.micro_batch=65536", "run.steps=1"});
  const ProgramResult result = train_within(kib, "run", {"run.steps=3"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_TRUE(has(result.out, "as the run has it that goes on")) << result.out;
  EXPECT_TRUE(has(result.out, "step 2: ")) << result.out;
  EXPECT_TRUE(has(result.out, "ran out of memory with micro_batch 65,536; it is repeated with"))
      << result.out;
  const std::int64_t smaller = micro_batch("run");
  EXPECT_LT(smaller, 65536);

  train("undisturbed", {"batch.micro_batch=" + std::to_string(smaller), "run.steps=3"});
  const std::vector<double> a = losses("run");
  const std::vector<double> b = losses("undisturbed");
  ASSERT_EQ(a.size(), 3U);
  ASSERT_EQ(b.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * b[i]);  // sums in other parts

  const ProgramResult fixed =
      train_within(kib, "fixed", {"batch.micro_batch=65536", "run.steps=1"});
  EXPECT_EQ(fixed.exit_code, 3) << fixed.describe();
  EXPECT_TRUE(has(fixed.err, "LS-3090")) << fixed.describe();

  const ProgramResult next = train("next", {"run.steps=1"});
  EXPECT_TRUE(has(next.out, "as an earlier run found it")) << next.out;
  EXPECT_EQ(micro_batch("next"), smaller);
}

}  // namespace
}  // namespace lockstep::test
