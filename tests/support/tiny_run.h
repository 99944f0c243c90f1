// A run whose steps take no time: for tests of everything around the training.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {

/// A small mlp on synthetic data; lines of TOML for what tests differ in.
struct TinyRun {
  std::string run = {};                        // of [run]
  std::string data = "train_samples = 512\n";  // of [data]
  std::string more = {};                       // further sections, last
};

inline std::string to_toml(const TinyRun& tiny) {
  return "[run]\n" + tiny.run +
         "\n[model]\nfamily = \"mlp\"\nlayers = 1\nwidth = 16\ninputs = 8\nclasses = 4\n"
         "\n[data]\nformat = \"synthetic\"\n" +
         tiny.data + "\n[batch]\nmicro_batch = 8\n\n" + tiny.more;
}

/// A test with such a run in its folder's run.toml; the run directory is `run` beside it.
class TinyRunTest : public testing::Test {
 protected:
  explicit TinyRunTest(const TinyRun& tiny) { write_file(folder_ / "run.toml", to_toml(tiny)); }

  /// `lockstep train` with the words of `more`.
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more = {},
                                                 const std::string& run_dir = "run") const {
    std::vector<std::string> argv{program("lockstep"), "train", folder_ / "run.toml", "--run-dir",
                                  folder_ / run_dir};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  /// As the events of the run say.
  [[nodiscard]] bool has_done_step(int step, const std::string& run_dir = "run") const {
    const std::string events = read_file(folder_.path() / run_dir / "events.jsonl");
    return events.find("\"step\":" + std::to_string(step) + ",") != std::string::npos;
  }

  TemporaryFolder folder_;
};

/// Words that set configuration keys: "--set a.b=1 --set ...".
inline std::vector<std::string> set_words(const std::vector<std::string>& settings) {
  std::vector<std::string> words;
  for (const auto& setting : settings) words.insert(words.end(), {"--set", setting});
  return words;
}

}  // namespace lockstep::test
