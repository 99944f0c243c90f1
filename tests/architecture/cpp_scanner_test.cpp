// The style tests stand on the scanner, so it is tested itself.
#include "tests/architecture/cpp_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::test {
namespace {

std::vector<int> lengths(const std::string& text) {
  std::vector<int> found;
  for (const auto& function : functions_of(text)) found.push_back(function.lines());
  return found;
}

TEST(CppScanner, CommentsGoAndStringsThatLookLikeCommentsStay) {
  EXPECT_EQ(without_comments("a; // b\n\"// c\" /* d\n e */ f"), "a;     \n\"// c\"     \n      f");
}

TEST(CppScanner, BracesInStringsCharactersAndDirectivesDoNotCount) {
  const std::string text = "#define OPEN {\nvoid f() {\n  g(\"}\", '{', R\"(}})\", 1'000);\n}\n";
  EXPECT_EQ(lengths(text), (std::vector{3}));
}

TEST(CppScanner, ASignatureOverSeveralLinesCounts) {
  EXPECT_EQ(lengths("int f(int a,\n      int b) {\n  return a;\n}\n"), (std::vector{4}));
}

TEST(CppScanner, MethodsInClassesAndNamespacesAreFound) {
  const std::string text =
      "namespace a {\nclass B : public C {\n public:\n  B() : x_(1), y_{2} { go(); }\n"
      "  int x() const noexcept {\n    return x_;\n  }\n};\n}\n";
  EXPECT_EQ(lengths(text), (std::vector{1, 3}));
}

TEST(CppScanner, ALambdaAndAnIfBelongToTheFunctionAroundThem) {
  EXPECT_EQ(lengths("void f() {\n  if (x) {\n  }\n  auto g = [] {\n  };\n}\n"), (std::vector{6}));
}

TEST(CppScanner, TablesAndInitialValuesAreNoFunctions) {
  const std::string text =
      "constexpr auto kRows = std::to_array<Row>({\n    {1, 2},\n});\n"
      "struct P {\n  std::chrono::seconds s{std::chrono::seconds(20)};\n};\nint x{f(1)};\n";
  EXPECT_TRUE(lengths(text).empty());
}

TEST(CppScanner, TestsTemplatesAndOperatorsAreFunctions) {
  const std::string text =
      "TEST(A, B) {\n}\ntemplate <typename T = int>\n[[nodiscard]] T f(T t) {\n}\n"
      "bool operator==(const A& a, const A& b) {\n}\n";
  EXPECT_EQ(lengths(text), (std::vector{2, 3, 2}));
}

TEST(CppScanner, LinesHoldCodeOrCommentOrBothOrNeither) {
  const LineCounts counts = count_lines("// a\n\nint b;  // c\n/* d\n   e */\n");
  EXPECT_EQ(counts.code, 1);
  EXPECT_EQ(counts.comments, 4);
  EXPECT_EQ(counts.filled, 4);
}

}  // namespace
}  // namespace lockstep::test
