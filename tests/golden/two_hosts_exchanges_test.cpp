// Ways to send less on two hosts, in two network namespaces of this machine: four ranks train as
// four of one host do, as far as the sums are rounded alike.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/network_pair.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"
#include "tests/support/two_hosts.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

// The first layer fills the last bucket, which travels whole; the others are buckets of their own.
constexpr const char* kRun = R"([run]
steps = 12
[model]
family = "mlp"
layers = 3
width = 128
inputs = 4200
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
bucket_mib = 0.1
first_bucket_mib = 0.05
)";

struct Way {
  const char* name;
  std::vector<std::string> settings;
  double tolerance;  // of each step's loss, relative
};

class ExchangesOnTwoHosts : public testing::Test {
 protected:
  ExchangesOnTwoHosts() { write_file(folder_ / "run.toml", kRun); }

  [[nodiscard]] std::vector<std::string> command(const std::string& run_dir,
                                                 const std::vector<std::string>& settings) const {
    std::vector<std::string> argv{program("lockstep"), "train",     folder_ / "run.toml",
                                  "--quiet",           "--run-dir", folder_ / run_dir};
    const auto words = set_words(settings);
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }

  void train_on_one(const std::string& run_dir, const Way& way) const {
    std::vector<std::string> argv = command(run_dir, way.settings);
    argv.insert(argv.end(), {"--nproc-per-node", "4"});
    const ProgramResult result = run_program(argv);
    ASSERT_EQ(result.exit_code, 0) << result.describe();
  }

  void train_on_two(const std::string& run_dir, const Way& way) const {
    const auto ranks = start_on_two_hosts(network_, 2, command(run_dir, way.settings));
    for (const auto& rank : ranks) {
      const ProgramResult result = rank->wait();
      ASSERT_EQ(result.exit_code, 0) << result.describe();
    }
  }

  [[nodiscard]] std::vector<double> numbers(const std::string& run_dir, const char* key) const {
    std::vector<double> list;
    std::istringstream lines(read_file(folder_ / (run_dir + "/events.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.contains(key)) list.push_back(event.at(key));
    }
    return list;
  }

  /// Bytes of each step but the second, in which new buckets are laid out.
  [[nodiscard]] std::vector<double> sent(const std::string& run_dir) const {
    std::vector<double> bytes = numbers(run_dir, "comm_bytes");
    if (bytes.size() > 1) bytes.erase(bytes.begin() + 1);
    return bytes;
  }

  TemporaryFolder folder_;
  NetworkPair network_;
};

TEST_F(ExchangesOnTwoHosts, GiveTheLossesOfOneHostAndSendTheSameBytes) {
  // In 16 bits a sum is rounded once inside a host and once between them, and on one host once.
  for (const Way& way :
       {Way{"bf16", {"precision.reduce=bf16"}, 1e-2}, Way{"fp16", {"precision.reduce=fp16"}, 5e-3},
        Way{"powersgd",
            {"parallel.gradient_compression=powersgd", "parallel.powersgd_from=2"},
            1e-5},
        Way{"local", {"parallel.local_steps=4"}, 1e-5}}) {
    const std::string one = std::string(way.name) + "-one";
    const std::string two = std::string(way.name) + "-two";
    train_on_one(one, way);
    train_on_two(two, way);
    const std::vector<double> expected = numbers(one, "loss");
    const std::vector<double> losses = numbers(two, "loss");
    ASSERT_EQ(expected.size(), 12U) << way.name;
    ASSERT_EQ(losses.size(), 12U) << way.name;
    double worst = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      worst = std::max(worst, std::abs(losses[i] / expected[i] - 1));
    }
    EXPECT_LT(worst, way.tolerance) << way.name;
    RecordProperty(way.name, [&] {
      std::ostringstream text;
      text << worst;
      return text.str();
    }());
    EXPECT_LT(losses.back(), losses.front()) << way.name;
    EXPECT_EQ(sent(two), sent(one)) << way.name;
  }
}

}  // namespace
}  // namespace lockstep::test
