// `lockstep plan` as a person or a script runs it, for tests.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {

inline ProgramResult plan(std::vector<std::string> words) {
  words.insert(words.begin(), {program("lockstep"), "plan"});
  return run_program(words);
}

/// The document of a plan that is answered.
inline nlohmann::json planned(std::vector<std::string> words) {
  words.emplace_back("--json");
  const ProgramResult result = plan(words);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  return nlohmann::json::parse(result.out, nullptr, false);
}

/// Every flag that is wrong, and the code, "--zero LS-1020".
inline std::vector<std::string> refused(std::vector<std::string> words) {
  words.emplace_back("--json");
  const ProgramResult result = plan(words);
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  std::vector<std::string> all;
  const auto document = nlohmann::json::parse(result.out);
  for (const nlohmann::json& problem : document.at("errors")) {
    EXPECT_NE(problem.at("fix"), "");
    all.push_back(problem.at("where").get<std::string>() + " " +
                  problem.at("code").get<std::string>());
  }
  return all;
}

}  // namespace lockstep::test
