#include "lockstep/base/shell_word.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {
namespace {

/// What a shell makes of the words of `line`: each with a NUL behind it.
std::string as_a_shell_reads(const std::string& line) {
  const std::string command = "printf '%s\\0' " + line;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string read;
  std::array<char, 4096> bytes{};
  std::size_t count = 0;
  while ((count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0) {
    read.append(bytes.data(), count);
  }
  EXPECT_EQ(::pclose(pipe), 0) << line;
  return read;
}

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(shell_word("optimizer.lr=0.05"), "optimizer.lr=0.05");
  EXPECT_EQ(shell_word("/srv/runs/a-1_b"), "/srv/runs/a-1_b");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellWord, AShellReadsHostileWordsBackUnchanged) {
  std::vector<std::string> words{"",
                                 "two words",
                                 "it's",
                                 "'",
                                 "''",
                                 "$HOME",
                                 "$(touch /tmp/never)",
                                 "`id`",
                                 "a;b",
                                 "a&&b|c>d<e",
                                 "*",
                                 "~",
                                 "\\",
                                 "\\'",
                                 "line\nbreak",
                                 "-n",
                                 "!!",
                                 "{a,b}",
                                 "#no comment",
                                 "\x01\x7f\xff",
                                 "\"$x\""};
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  words.push_back(all);
  std::string expected;
  for (const std::string& word : words) expected += word + '\0';
  EXPECT_EQ(as_a_shell_reads(shell_line(words)), expected);
}

}  // namespace
}  // namespace lockstep
