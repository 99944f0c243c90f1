#include "lockstep/launch/line_splitter.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::launch {
namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces,
                                  Overlong overlong = Overlong::cut, std::size_t max_bytes = 8) {
  std::vector<std::string> lines;
  LineSplitter splitter(max_bytes, overlong,
                        [&](std::string line) { lines.push_back(std::move(line)); });
  for (const auto& piece : pieces) splitter.feed(piece);
  splitter.finish();
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineSplitter, JoinsPiecesAndKeepsTheLastLineWithoutAnEnd) {
  EXPECT_EQ(lines_of({"a", "b\nc", "d\n\ne"}), (Lines{"ab", "cd", "", "e"}));
}

TEST(LineSplitter, TakesEveryKindOfLineEnd) {
  EXPECT_EQ(lines_of({"a\r\nb\rc\r", "\nd"}), (Lines{"a", "b", "c", "d"}));
}

TEST(LineSplitter, CutsLongLinesAndGoesOnWithTheNext) {
  EXPECT_EQ(lines_of({"123456789", "0123\nok\n"}), (Lines{"12345678 ...", "ok"}));
  EXPECT_EQ(lines_of({"12345678\n"}), (Lines{"12345678"}));
}

TEST(LineSplitter, DiscardsLongLinesWholeWhenAskedTo) {
  EXPECT_EQ(lines_of({"{\"step\":1,", "\"x\":2}\n{}\n"}, Overlong::discard), (Lines{"{}"}));
}

std::string joined(std::initializer_list<std::string_view> pieces, std::size_t max_bytes) {
  std::string text;
  WholeLines lines(max_bytes, [&](std::string piece) { text += piece + "|"; });
  for (const auto piece : pieces) lines.feed(piece);
  lines.finish();
  return text;
}

TEST(WholeLines, BytesAreCutBehindALineEndAndStayAsTheyAre) {
  EXPECT_EQ(joined({"a\nb", "c\n", "d"}, 100), "a\n|bc\n|d|");
  EXPECT_EQ(joined({"10%\r20%\r3", "0%"}, 100), "10%\r20%\r|30%|") << "a bar redrawn in place";
}

TEST(WholeLines, ALineWithoutAnEndIsHandedOnInPieces) {
  EXPECT_EQ(joined({"123", "456", "7"}, 4), "123456|7|");
}

TEST(Tail, KeepsMoreThanItShows) {
  Tail tail;
  for (int i = 0; i < 1000; ++i) tail.add(std::to_string(i));
  EXPECT_TRUE(tail.long_text().starts_with("600\n"));
  EXPECT_TRUE(tail.text().starts_with("980\n"));
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail;
  for (int i = 0; i < 30; ++i) tail.add(std::to_string(i));
  const std::string text = tail.text();
  EXPECT_TRUE(text.starts_with("10\n11\n")) << text;
  EXPECT_TRUE(text.ends_with("\n29")) << text;
}

TEST(Tail, IsBoundedInBytes) {
  Tail tail;
  for (int i = 0; i < 20; ++i) tail.add(std::string(5000, 'x'));
  EXPECT_LE(tail.text().size(), 8192U);
  tail.add(std::string(100'000, 'y'));
  EXPECT_EQ(tail.text(), std::string(8192, 'y'));
}

}  // namespace
}  // namespace lockstep::launch
