#include "lockstep/cli/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kFlags = std::to_array<Flag>({
    {.name = "--nproc-per-node",
     .value = "N",
     .type = ValueType::integer,
     .words = "auto",
     .minimum = 1,
     .maximum = 64},
    {.name = "--set", .value = "KEY=VALUE", .repeats = true},
    {.name = "--ratio", .value = "X", .type = ValueType::number, .minimum = 0},
    {.name = "--as", .value = "rank|agent", .words = "rank|agent"},
    {.name = "--dry-run"},
    {.name = "--module", .short_name = "-m"},
    {.name = "--tee", .value = "T", .short_name = "-t"},
});

Command command(bool rest = false) {
  return {.name = "try",
          .positional = {.name = "RUN.toml", .at_least = rest ? 1 : 0, .rest = rest},
          .flags = kFlags};
}

Args parse(const std::vector<std::string>& words, bool rest = false) {
  ParsedArgs parsed = parse_args(command(rest), words);
  EXPECT_THAT(parsed.problems, IsEmpty()) << to_text(parsed.problems);
  return std::move(parsed.args);
}

Problem only_problem(const std::vector<std::string>& words) {
  const ParsedArgs parsed = parse_args(command(), words);
  EXPECT_EQ(parsed.problems.size(), 1U) << to_text(parsed.problems);
  return parsed.problems.empty() ? Problem{} : parsed.problems.front();
}

TEST(ParseArgs, ReadsFlagsOfEveryKindInAnyOrder) {
  const Args args = parse({"--set", "a=1", "run.toml", "--nproc-per-node", "2", "--set=b=2",
                           "--dry-run", "--ratio=0.5", "--as", "rank", "-m", "-t", "3"});
  EXPECT_THAT(args.all("--set"), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(args.integer("--nproc-per-node"), 2);
  EXPECT_EQ(args.number("--ratio"), 0.5);
  EXPECT_EQ(args.text("--as"), "rank");
  EXPECT_TRUE(args.has("--dry-run"));
  EXPECT_TRUE(args.has("--module"));
  EXPECT_EQ(args.text("--tee"), "3");
  EXPECT_FALSE(args.has("--json"));
  EXPECT_THAT(args.words(), ElementsAre("run.toml"));
}

TEST(ParseArgs, WithoutFlagsEverythingIsUnset) {
  const Args args = parse({});
  EXPECT_EQ(args.integer("--nproc-per-node"), std::nullopt);
  EXPECT_EQ(args.text("--as", "front"), "front");
  EXPECT_THROW((void)args.has("--no-such-flag"), Bug);
}

TEST(ParseArgs, TakesUnderscoresForDashesButOnlyInNames) {
  const Args args = parse({"--nproc_per_node=3", "--dry_run", "--set", "a_b=c_d", "x_y.toml"});
  EXPECT_EQ(args.integer("--nproc-per-node"), 3);
  EXPECT_TRUE(args.has("--dry-run"));
  EXPECT_THAT(args.all("--set"), ElementsAre("a_b=c_d"));
  EXPECT_THAT(args.words(), ElementsAre("x_y.toml"));
}

TEST(ParseArgs, AnIntegerFlagCanAlsoTakeItsWords) {
  EXPECT_EQ(parse({"--nproc-per-node", "auto"}).text("--nproc-per-node"), "auto");
}

TEST(ParseArgs, AnUnknownFlagNamesTheNearest) {
  EXPECT_EQ(only_problem({"--nproc-per-nod=2"}),
            (Problem{"LS-1012", "--nproc-per-nod", "unknown flag of try",
                     "did you mean --nproc-per-node?"}));
  EXPECT_EQ(only_problem({"--zzzzzz"}).fix, "`lockstep try --help` lists the flags");
  EXPECT_EQ(only_problem({"-x"}).code, "LS-1012");
}

TEST(ParseArgs, AValueOutOfRangeOrOfTheWrongTypeSaysWhatIsAllowed) {
  EXPECT_EQ(
      only_problem({"--nproc-per-node", "0"}),
      (Problem{"LS-1013", "--nproc-per-node", "cannot be 0", "use a whole number from 1 to 64"}));
  EXPECT_EQ(only_problem({"--nproc-per-node", "-2"}).what, "cannot be -2");
  EXPECT_EQ(only_problem({"--nproc-per-node", "2.5"}).code, "LS-1013");
  EXPECT_EQ(only_problem({"--nproc-per-node", "99999999999999999999"}).code, "LS-1013");
  EXPECT_EQ(only_problem({"--ratio", "nan"}).fix, "use a number from 0");
  EXPECT_EQ(only_problem({"--as", "boss"}).fix, "use rank|agent");
}

TEST(ParseArgs, AMissingValueIsAProblemAtTheEndAndBeforeAnotherFlag) {
  EXPECT_EQ(only_problem({"--set"}),
            (Problem{"LS-1013", "--set", "has no value", "write --set KEY=VALUE"}));
  EXPECT_EQ(only_problem({"--set", "--dry-run"}).where, "--set");
}

TEST(ParseArgs, AFlagGivenTwiceIsAProblemUnlessItRepeats) {
  EXPECT_EQ(only_problem({"--ratio=1", "--ratio=2"}).what, "stands 2 times");
  EXPECT_TRUE(parse({"--dry-run", "--dry-run"}).has("--dry-run"));
}

TEST(ParseArgs, FindsAllProblemsAtOnce) {
  const ParsedArgs parsed =
      parse_args(command(), {"--oops", "--nproc-per-node", "x", "--as", "y", "a", "b"});
  std::vector<std::string> codes;
  for (const Problem& problem : parsed.problems) codes.push_back(problem.code);
  EXPECT_THAT(codes, testing::UnorderedElementsAre("LS-1012", "LS-1013", "LS-1013"));
  EXPECT_EQ(only_problem({"a", "b", "c", "d", "e"}).code, "LS-1014");
}

TEST(ParseArgs, TheValueOfAMisspeltFlagIsNotCalledAnArgumentTooMany) {
  EXPECT_EQ(only_problem({"run.toml", "--nproc-per-nodes", "2"}).code, "LS-1012");
}

TEST(ParseArgs, WordsBehindADoubleDashAreNeverFlags) {
  EXPECT_THAT(parse({"--", "--json"}).words(), ElementsAre("--json"));
}

TEST(ParseArgs, WhereTheRestIsSomebodyElsesNothingInItIsTouched) {
  const Args args =
      parse({"--nproc_per_node", "2", "train.py", "--learning_rate", "--json", "--"}, true);
  EXPECT_EQ(args.integer("--nproc-per-node"), 2);
  EXPECT_FALSE(args.has("--json"));
  EXPECT_THAT(args.words(), ElementsAre("train.py", "--learning_rate", "--json", "--"));
  EXPECT_THAT(parse({"--", "-x.py"}, true).words(), ElementsAre("-x.py"));
  EXPECT_EQ(parse_args(command(true), {}).problems.at(0).code, "LS-1014");
}

TEST(ParseArgs, HostileWordsAreProblemsOrWords) {
  for (const std::string& word :
       {std::string("--"), std::string("-"), std::string("---"), std::string("--="),
        std::string(100'000, '-'), "--" + std::string(100'000, 'a'), std::string("[a,b]"),
        std::string("\xff\xfe")}) {
    EXPECT_NO_THROW((void)parse_args(command(), {word})) << word.substr(0, 20);
  }
}

TEST(ParseArgs, TheValueOfAMisspeltFlagIsNotWhereTheRestBegins) {
  const ParsedArgs parsed =
      parse_args(command(/*rest=*/true), {"--nproc-per-nod", "2", "--as", "boss", "x", "--as"});
  EXPECT_EQ(parsed.problems.size(), 2U) << to_text(parsed.problems);
  EXPECT_THAT(parsed.args.words(), testing::Contains("x"));
}

TEST(ParseArgs, OfAFlagThatMayStandTwiceTheLastOneCounts) {
  constexpr auto kLast =
      std::to_array<Flag>({{.name = "--role", .value = "NAME", .last_counts = true}});
  const Command last{.name = "try", .flags = kLast};
  const ParsedArgs parsed = parse_args(last, {"--role", "a", "--role=b"});
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.args.text("--role"), "b");
}

}  // namespace
}  // namespace lockstep::cli
