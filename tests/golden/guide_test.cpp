// What docs/guides/planning.md shows is what `lockstep plan` prints today.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

/// A command of a guide and the lines that are shown of its output; "..." stands for some others.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<Shown> shown_in(const std::string& path) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path);
  std::vector<Shown> all;
  bool inside = false;
  bool goes_on = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = false;
    } else if (line.starts_with("$ ")) {
      all.push_back({line.substr(2), {}});
      inside = true;
    } else if (goes_on) {
      all.back().command += line;
    } else if (inside) {
      all.back().lines.push_back(line);
    }
    goes_on = inside && line.ends_with("\\");
    if (goes_on) all.back().command.pop_back();
  }
  return all;
}

/// Of what this test cannot have: a run, a file, a tool, some minutes.
bool needs_more(const std::string& command) {
  for (const char* word : {"run.toml", "ds_config", "jq", "--calibrate"}) {
    if (command.find(word) != std::string::npos) return true;
  }
  return !command.starts_with("lockstep plan ");
}

TEST(Guides, ShowWhatPlanPrints) {
  const std::string folder = program("lockstep").substr(0, program("lockstep").rfind('/'));
  int tried = 0;
  for (const Shown& shown : shown_in("docs/guides/planning.md")) {
    if (needs_more(shown.command)) continue;
    ++tried;
    const ProgramResult result =
        run_program({"sh", "-c", folder + "/" + shown.command}, {.extra_env = {"LC_ALL=C.UTF-8"}});
    std::istringstream printed(result.out);
    std::string now;
    for (const std::string& line : shown.lines) {
      if (line == "...") continue;
      bool found = false;
      while (!found && std::getline(printed, now)) found = now == line;
      EXPECT_TRUE(found) << shown.command << "\nno longer prints, or not there:\n" << line;
      if (!found) break;
    }
  }
  EXPECT_GE(tried, 6);
}

}  // namespace
}  // namespace lockstep::test
