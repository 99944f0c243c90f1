// The hard limits of how this code base is written; the soft ones are printed by StyleNumbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "tests/architecture/cpp_scanner.h"
#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

constexpr int kHeaderLines = 300;
constexpr int kSourceLines = 500;
constexpr int kTestLines = 700;
constexpr int kFunctionLines = 80;
constexpr std::size_t kColumns = 100;

int line_count(const SourceFile& file) { return static_cast<int>(split_lines(file.text).size()); }

int line_limit(const SourceFile& file) {
  if (file.is_test()) return kTestLines;
  return file.is_header() ? kHeaderLines : kSourceLines;
}

std::vector<const SourceFile*> cpp_files() {
  std::vector<const SourceFile*> found;
  for (const auto& file : all_files()) {
    if (file.is_cpp()) found.push_back(&file);
  }
  return found;
}

TEST(Style, FilesKeepTheirLengthLimit) {
  for (const SourceFile* file : cpp_files()) {
    EXPECT_LE(line_count(*file), line_limit(*file)) << file->path;
  }
}

TEST(Style, FunctionsFitOnAScreen) {
  for (const SourceFile* file : cpp_files()) {
    for (const auto& function : functions_of(file->text)) {
      EXPECT_LE(function.lines(), kFunctionLines)
          << file->path << ":" << function.first_line << ": " << function.head;
    }
  }
}

std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](unsigned char c) {
    return (c & 0xC0) != 0x80;  // all but the later bytes of a UTF-8 character
  }));
}

TEST(Style, LinesKeepToAHundredColumns) {
  for (const SourceFile* file : cpp_files()) {
    const auto lines = split_lines(file->text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool unbreakable = lines[i].find('"') != std::string::npos;  // a long string
      EXPECT_TRUE(columns(lines[i]) <= kColumns || unbreakable) << file->path << ":" << i + 1;
    }
  }
}

TEST(Style, AHeaderOpensWithItsNotionAndIsIncludedOnce) {
  for (const SourceFile* file : cpp_files()) {
    if (!file->is_header()) continue;
    EXPECT_TRUE(file->text.starts_with("// ")) << file->path;
    EXPECT_NE(file->text.find("\n#pragma once\n"), std::string::npos) << file->path;
  }
}

TEST(Style, NamespacesAreNamedNotOpened) {
  const std::regex opened("\\busing\\s+namespace\\s+(?!std::(chrono_|string_)?literals\\b)");
  for (const SourceFile* file : cpp_files()) {
    EXPECT_FALSE(std::regex_search(bare_code(file->text), opened)) << file->path;
  }
}

TEST(Style, NoNotesToOneselfAndNoPlacesOfOneMachine) {
  // Written in pieces, so that this file does not contain what it looks for.
  const std::regex left_over(std::string("\\bTO") + "DO\\b|\\bFIX" + "ME\\b|\\bX" +
                             "XX\\b|(^|[^\\w.])/ro" + "ot/|(^|[^\\w.])/wo" + "rk/");
  for (const auto& file : all_files()) {
    std::smatch match;
    if (file.path.starts_with("tests/fuzz/corpus/")) continue;
    EXPECT_FALSE(std::regex_search(file.text, match, left_over))
        << file.path << ": " << match.str() << match.suffix().str().substr(0, 40);
  }
}

TEST(Style, EnvironmentVariablesAreReadOnlyAtTheEdges) {
  for (const SourceFile* file : cpp_files()) {
    const std::string folder = folder_of(file->path);
    if (file->is_test() || folder == "cli" || folder == "config") continue;
    EXPECT_EQ(bare_code(file->text).find("getenv("), std::string::npos) << file->path;
  }
}

int median(std::vector<int> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int percent(int part, int whole) { return whole == 0 ? 0 : (100 * part + whole / 2) / whole; }

struct Numbers {
  std::vector<int> header_lines;
  std::vector<int> source_lines;
  std::vector<int> function_lines;
  LineCounts headers;
  LineCounts sources;
  int test_lines = 0;
};

Numbers measure() {
  Numbers numbers;
  for (const SourceFile* file : cpp_files()) {
    const LineCounts counts = count_lines(file->text);
    if (file->is_test()) {
      numbers.test_lines += counts.code;
      continue;
    }
    LineCounts& sum = file->is_header() ? numbers.headers : numbers.sources;
    sum.code += counts.code;
    sum.comments += counts.comments;
    sum.filled += counts.filled;
    (file->is_header() ? numbers.header_lines : numbers.source_lines).push_back(line_count(*file));
    for (const auto& function : functions_of(file->text)) {
      numbers.function_lines.push_back(function.lines());
    }
  }
  return numbers;
}

TEST(StyleNumbers, ArePrintedToLookAt) {
  const Numbers n = measure();
  const auto functions = static_cast<int>(n.function_lines.size());
  const auto up_to_25 = static_cast<int>(std::count_if(
      n.function_lines.begin(), n.function_lines.end(), [](int l) { return l <= 25; }));
  const int code = n.headers.code + n.sources.code;
  std::printf("style: header median %d lines (<= 80), source median %d (<= 150)\n",
              median(n.header_lines), median(n.source_lines));
  std::printf("style: function median %d lines (<= 7), %d %% of %d have at most 25 (90 %%)\n",
              median(n.function_lines), percent(up_to_25, functions), functions);
  std::printf("style: comments are %d %% of headers (30-45 %%), %d %% of sources (8-15 %%)\n",
              percent(n.headers.comments, n.headers.filled),
              percent(n.sources.comments, n.sources.filled));
  std::printf("style: %d lines of tests for %d lines of code: %.2f (>= 0.8)\n", n.test_lines, code,
              code == 0 ? 0.0 : static_cast<double>(n.test_lines) / code);
  EXPECT_GT(functions, 0);
}

}  // namespace
}  // namespace lockstep::test
