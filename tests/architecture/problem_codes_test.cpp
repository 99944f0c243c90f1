// The LS-nnnn codes that the sources print against the table that explains them.
#include "lockstep/base/problem_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/architecture/cpp_scanner.h"
#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

constexpr const char* kTables = "lockstep/base/problem_codes_";
constexpr const char* kCodePattern = "\"(LS-[0-9]{4})\"";

/// Each code used by a source that is not a test, and a file that uses it.
std::map<std::string, std::string> codes_in_use() {
  std::map<std::string, std::string> used;
  for (const auto& file : all_files()) {
    if (!file.is_cpp() || file.is_test() || file.path.starts_with(kTables)) continue;
    if (!file.path.starts_with("lockstep/")) continue;
    for (const auto& code : find_all(without_comments(file.text), kCodePattern)) {
      used[code] = file.path;
    }
  }
  return used;
}

TEST(ProblemCodes, EveryCodeThatTheSourcesPrintIsExplained) {
  for (const auto& [code, path] : codes_in_use()) {
    EXPECT_NE(find_problem_code(code), nullptr)
        << code << " in " << path << " has no row in a file " << kTables << "*.cpp";
  }
}

TEST(ProblemCodes, EveryExplainedCodeIsPrintedSomewhere) {
  const auto used = codes_in_use();
  for (const auto& row : problem_codes()) {
    EXPECT_TRUE(used.contains(std::string(row.code))) << row.code << " is printed nowhere";
  }
}

TEST(ProblemCodes, CodesAscendAndAreUnique) {
  const auto rows = problem_codes();
  const auto not_ascending = std::adjacent_find(
      rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.code >= b.code; });
  EXPECT_EQ(not_ascending, rows.end()) << not_ascending->code;
}

TEST(ProblemCodes, EveryRowHasATitleAndAnExplanation) {
  for (const auto& row : problem_codes()) {
    EXPECT_FALSE(row.title.empty()) << row.code;
    EXPECT_GT(row.explain.size(), row.title.size()) << row.code;
  }
}

}  // namespace
}  // namespace lockstep::test
