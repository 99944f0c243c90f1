#include "lockstep/cli/next_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/problem_codes.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/shell_scripts.h"
#include "lockstep/config/registry.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using Words = std::vector<std::string>;

Words words_at(const Words& line) {
  Words words;
  for (const NextWord& next : next_words(line).words) words.push_back(next.word);
  return words;
}

TEST(NextWords, BeginWithTheCommandsAndTheSecondWordsOfAGroup) {
  std::set<std::string> first;
  for (const Command& command : commands()) {
    first.insert(std::string(command.name.substr(0, command.name.find(' '))));
  }
  EXPECT_THAT(words_at({""}), testing::UnorderedElementsAreArray(first));
  EXPECT_THAT(words_at({"tr"}), ElementsAre("train"));
  EXPECT_THAT(words_at({"--json", "tr"}), ElementsAre("train"));
  EXPECT_THAT(words_at({"bench", ""}), ElementsAre("comm", "scaling", "checkpoint", "kernels"));
  EXPECT_EQ(next_words({"be"}).words[0].help, "comm, scaling, checkpoint, kernels");
  EXPECT_THAT(words_at({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(words_at({"nothing", ""}), IsEmpty());
  EXPECT_THAT(words_at({}), IsEmpty());
}

TEST(NextWords, OfferEveryFlagOfEveryCommandUntilItWasGiven) {
  for (const Command& command : commands()) {
    const std::string name(command.name);
    const std::size_t blank = name.find(' ');
    Words line{name.substr(0, blank)};
    if (blank != std::string::npos) line.push_back(name.substr(blank + 1));
    Words all;
    for (const Flag& flag : all_flags(command)) all.emplace_back(flag.name);
    line.emplace_back("--");
    EXPECT_EQ(words_at(line), all) << name;
  }
  EXPECT_THAT(words_at({"plan", "--check", "--"}), Not(Contains("--check")));
  EXPECT_THAT(words_at({"plan", "--set", "run.seed=1", "--s"}), Contains("--set"));
  EXPECT_THAT(words_at({"train", "--run_d"}), ElementsAre("--run_dir"));
}

TEST(NextWords, OfferTheWordsOfAFlagInBothOfItsForms) {
  EXPECT_THAT(words_at({"train", "--as", ""}), ElementsAre("rank", "agent"));
  EXPECT_THAT(words_at({"train", "--as=ra"}), ElementsAre("--as=rank"));
  EXPECT_THAT(words_at({"train", "--nproc-per-node", ""}), ElementsAre("auto", "cpu"));
  EXPECT_THAT(words_at({"help", "--markdown", "con"}), ElementsAre("config"));
  EXPECT_THAT(words_at({"bench", "comm", "--op", "all_reduce,b"}),
              ElementsAre("all_reduce,broadcast", "all_reduce,barrier"));
  EXPECT_THAT(words_at({"train", "--resume", ""}), ElementsAre("auto", "none"));
}

TEST(NextWords, LeaveFilesToTheShell) {
  EXPECT_EQ(next_words({"train", ""}).files, NextFiles::toml);
  EXPECT_EQ(next_words({"train", "--quiet", "run"}).files, NextFiles::toml);
  EXPECT_EQ(next_words({"train", "--run-dir", ""}).files, NextFiles::folders);
  EXPECT_EQ(next_words({"train", "--run-dir=ru"}).files, NextFiles::folders);
  EXPECT_EQ(next_words({"train", "--resume", ""}).files, NextFiles::folders);
  EXPECT_EQ(next_words({"doctor", "watch", ""}).files, NextFiles::folders);
  EXPECT_EQ(next_words({"train", "--set", "data.train="}).files, NextFiles::any);
  EXPECT_EQ(next_words({"train", "--master-port", ""}).files, NextFiles::none);
  EXPECT_EQ(next_words({"train", "run.toml", ""}).files, NextFiles::none);
  EXPECT_EQ(next_words({"launch", ""}).files, NextFiles::any);
  EXPECT_EQ(next_words({"launch", "train.py", "--lr"}).files, NextFiles::any);
}

TEST(NextWords, AfterTheLastArgumentFlagsFollow) {
  EXPECT_THAT(words_at({"train", "run.toml", ""}), Contains("--set"));
  EXPECT_THAT(words_at({"train", "run.toml", "--", ""}), IsEmpty());
}

TEST(NextWords, OfSetAreSectionsThenKeysThenWords) {
  EXPECT_EQ(words_at({"plan", "--set", ""}).size(), config::sections().size());
  EXPECT_THAT(words_at({"plan", "--set", "opt"}), ElementsAre("optimizer."));
  EXPECT_THAT(words_at({"plan", "--set", "optimizer.l"}), ElementsAre("optimizer.lr="));
  EXPECT_THAT(words_at({"plan", "--set=optimizer.l"}), ElementsAre("--set=optimizer.lr="));
  EXPECT_THAT(words_at({"plan", "--set", "optimizer.name="}),
              ElementsAre("optimizer.name=sgd", "optimizer.name=adamw"));
  EXPECT_THAT(words_at({"plan", "--set", "optimizer.nesterov=t"}),
              ElementsAre("optimizer.nesterov=true"));
  EXPECT_THAT(words_at({"plan", "--set", "batch.micro_batch="}),
              ElementsAre("batch.micro_batch=auto"));
  EXPECT_THAT(words_at({"plan", "--set", "optimizer.lr="}), IsEmpty());
  EXPECT_THAT(words_at({"plan", "--set", "no.such.key="}), IsEmpty());
  for (const config::Option& option : config::options()) {
    const std::string key(option.key);
    EXPECT_THAT(words_at({"plan", "--set", key}), Contains(key + "="));
  }
}

TEST(NextWords, OfSetAreTheKeysThatTheRunReads) {
  const test::ScratchFolder folder;
  const std::string file = folder.write("run.toml", "[model]\nfamily = \"resnet\"\n");
  EXPECT_THAT(words_at({"train", file, "--set", "model."}), Contains("model.depth="));
  EXPECT_THAT(words_at({"train", file, "--set", "model."}), Not(Contains("model.heads=")));
  EXPECT_THAT(words_at({"train", "--set", "model.", file}), IsEmpty());
  const Words with_gpt{"train", file, "--set", "model.family=gpt", "--set", "model."};
  EXPECT_THAT(words_at(with_gpt), Contains("model.heads="));
  EXPECT_THAT(words_at({"train", folder.file("none.toml"), "--set", "model."}),
              IsSupersetOf({"model.depth=", "model.heads="}));
  EXPECT_THAT(words_at({"train", "/dev/zero", "--set", "model."}), Contains("model.heads="));
}

TEST(NextWords, OfHelpAreNamesAndOnceBegunKeysAndCodes) {
  EXPECT_THAT(words_at({"help", ""}), IsSupersetOf({"plan", "bench", "optimizer", "errors"}));
  EXPECT_THAT(words_at({"help", ""}), Not(Contains("optimizer.lr")));
  EXPECT_THAT(words_at({"help", "optimizer.l"}), ElementsAre("optimizer.lr"));
  EXPECT_EQ(words_at({"help", "LS-"}).size(), problem_codes().size());
  EXPECT_THAT(words_at({"help", "bench", "sc"}), ElementsAre("scaling"));
  EXPECT_THAT(words_at({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST(NextWords, OfCheckpointsAreFiles) {
  for (const char* command : {"inspect", "verify", "convert", "diff"}) {
    const NextWords next = next_words({"ckpt", command, ""});
    EXPECT_EQ(next.files, NextFiles::any) << command;
    EXPECT_TRUE(next.words.empty()) << command;
  }
  EXPECT_THAT(words_at({"ckpt", ""}), IsSupersetOf({"list", "inspect", "convert"}));
}

TEST(NextWords, AreLinesForTheScripts) {
  EXPECT_EQ(to_lines({{{"run.", "what"}, {"true", ""}}, NextFiles::toml}),
            "run.\twhat\ntrue\n:toml\n");
}

// A flag whose values completion knows nothing about is one that takes a number or free text.
TEST(NextWords, EveryFlagValueIsKnownOrFree) {
  const std::set<std::string_view> free{
      "HOST",  "T",         "X",          "N,N,...",    "BYTES,...",     "PORT",
      "N",     "N|MIN:MAX", "HOST:PORT",  "NAME",       "KEY=VALUE,...", "STREAMS",
      "N,...", "WORD,...",  "HOST:N,...", "SECONDS",    "FIELD,...",     "PATH",
      "LIMIT", "IMAGE",     "NUMBER",     "NAME|FILE",  "SPEC|FILE",     "DURATION",
      "BYTES", "PATTERN",   "SIZE",       "PREFIX,...", "TEXT"};
  for (const Command& command : commands()) {
    for (const Flag& flag : command.flags) {
      const bool is_number = flag.type != ValueType::text;
      const bool is_known = !flag.words.empty() || !flag.offers.empty() || flag.value == "DIR" ||
                            flag.value == "FILE" || flag.value.starts_with("KEY");
      EXPECT_TRUE(flag.value.empty() || is_number || is_known || free.contains(flag.value))
          << command.name << " " << flag.name << " " << flag.value;
    }
  }
}

TEST(ShellScripts, CallTheProgramByItsFlag) {
  for (const ShellScript& script : shell_scripts()) {
    EXPECT_THAT(std::string(script.text), HasSubstr(" " + std::string(kNextWordsFlag) + " "))
        << script.shell;
  }
}

}  // namespace
}  // namespace lockstep::cli
