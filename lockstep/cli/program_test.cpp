#include "lockstep/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "lockstep/config/registry.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Ran {
  Exit exit;
  std::string out;
  std::string err;
};

Ran run(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  const Exit exit = run_program(words, {.out = out, .err = err});
  return {exit, out.str(), err.str()};
}

TEST(RunProgram, WithoutACommandItShowsTheFrontPage) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"--help"}, {"-h"}, {"help"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.exit, Exit::ok);
    EXPECT_EQ(ran.out, front_page());
    EXPECT_THAT(ran.err, IsEmpty());
  }
}

TEST(RunProgram, EveryCommandHasHelpThatStartsWithExamplesAndListsItsFlags) {
  for (const Command& command : commands()) {
    std::vector<std::string> words;
    std::istringstream name{std::string(command.name)};
    for (std::string word; name >> word;) words.push_back(word);
    words.emplace_back("--help");
    const Ran ran = run(words);
    EXPECT_EQ(ran.exit, Exit::ok);
    EXPECT_THAT(ran.out, StartsWith("  # ")) << command.name;
    for (const Flag& flag : command.flags) EXPECT_THAT(ran.out, HasSubstr(std::string(flag.name)));
    EXPECT_THAT(ran.out, HasSubstr("--no-color"));
  }
}

TEST(CommandTable, NamesAreUniqueAndExamplesCallTheirCommand) {
  std::set<std::string_view> names;
  for (const Command& command : commands()) {
    EXPECT_TRUE(names.insert(command.name).second);
    EXPECT_FALSE(command.examples.empty()) << command.name;
    for (const Example& example : command.examples) {
      EXPECT_THAT(std::string(example.line), HasSubstr("lockstep " + std::string(command.name)));
    }
    std::set<std::string_view> flags;
    for (const Flag& flag : command.flags) {
      EXPECT_TRUE(flags.insert(flag.name).second) << flag.name;
      EXPECT_THAT(std::string(flag.name), StartsWith("--"));
      EXPECT_EQ(flag.name.find('_'), std::string_view::npos) << flag.name;
      EXPECT_FALSE(flag.help.empty()) << flag.name;
    }
    for (const Flag& common : common_flags()) EXPECT_FALSE(flags.contains(common.name));
  }
}

TEST(RunProgram, AnUnknownCommandNamesTheNearest) {
  const Ran ran = run({"plna"});
  EXPECT_EQ(ran.exit, Exit::usage);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_EQ(ran.err, "lockstep: error LS-1011: unknown command plna\n  fix: did you mean plan?\n");
  EXPECT_THAT(run({"--jsno"}).err, HasSubstr("LS-1012"));
}

TEST(RunProgram, WithJsonErrorsAreOneDocumentOnStandardOutput) {
  const Ran ran = run({"plan", "--nproc-per-node", "0", "--oops", "--json"});
  EXPECT_EQ(ran.exit, Exit::usage);
  EXPECT_THAT(ran.err, IsEmpty());
  const auto document = nlohmann::json::parse(ran.out);
  ASSERT_EQ(document.at("errors").size(), 2U);
  for (const auto& error : document.at("errors")) {
    for (const char* key : {"code", "where", "what", "fix"}) EXPECT_TRUE(error.contains(key));
  }
}

TEST(RunProgram, FlagsOfEveryCommandMayStandBeforeIt) {
  EXPECT_EQ(run({"--json", "plan"}).out, run({"plan", "--json"}).out);
  EXPECT_EQ(run({"--quiet", "plan"}).out, run({"plan", "--quiet"}).out);
  EXPECT_EQ(run({"-q", "--no_color", "plan"}).out, run({"plan", "--quiet"}).out);
  EXPECT_EQ(run({"--json", "bench", "comm", "--ranks", "x"}).out,
            run({"bench", "comm", "--ranks", "x", "--json"}).out);
  EXPECT_EQ(run({"--help", "plan"}).out, run({"plan", "--help"}).out);
  EXPECT_EQ(run({"--json", "--version"}).out, run({"--version", "--json"}).out);
  EXPECT_EQ(run({"--json"}).out, run({"help", "--json"}).out);
  EXPECT_EQ(run({"--quiet"}).out, front_page());
  EXPECT_THAT(run({"--quite", "plan"}).err, HasSubstr("LS-1012"));
}

TEST(RunProgram, ACommandThatAGroupLacksIsNamed) {
  EXPECT_THAT(run({"bench", "comn"}).err, HasSubstr("unknown command bench comn\n"
                                                    "  fix: did you mean bench comm?"));
  EXPECT_THAT(run({"bench", "x"}).err,
              HasSubstr("unknown command bench x\n  fix: use one of: comm, scaling"));
  EXPECT_THAT(run({"bench", "--json"}).out, HasSubstr("needs to know what to do"));
}

TEST(RunProgram, VersionAsTextAndAsJson) {
  EXPECT_THAT(run({"--version"}).out, StartsWith("lockstep "));
  const auto document = nlohmann::json::parse(run({"--version", "--json"}).out);
  for (const char* key : {"version", "libtorch", "backends", "git"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
}

TEST(Help, ExplainsKeysSectionsCodesAndCommands) {
  EXPECT_THAT(run({"help", "optimizer.lr"}).out, StartsWith("optimizer.lr: peak learning rate"));
  EXPECT_THAT(run({"help", "warmup_steps"}).out, StartsWith("schedule.warmup_steps: "));
  EXPECT_THAT(run({"help", "optimizer"}).out, HasSubstr("optimizer.momentum"));
  EXPECT_THAT(run({"help", "LS-1003"}).out, StartsWith("LS-1003: unknown configuration key"));
  EXPECT_EQ(run({"help", "plan"}).out, run({"plan", "--help"}).out);
}

TEST(Help, WhatNobodyKnowsIsAUsageErrorNamingTheNearest) {
  const Ran ran = run({"help", "optimizer.lrr"});
  EXPECT_EQ(ran.exit, Exit::usage);
  EXPECT_THAT(ran.err, HasSubstr("did you mean optimizer.lr?"));
  EXPECT_EQ(run({"help", "name"}).exit, Exit::usage);  // three sections have one
}

TEST(Help, ListsTheCommandsOfAGroup) {
  const Ran ran = run({"help", "bench"});
  EXPECT_EQ(ran.exit, Exit::ok);
  EXPECT_THAT(ran.out, HasSubstr("lockstep bench comm"));
  EXPECT_THAT(ran.out, HasSubstr("lockstep bench scaling"));
}

TEST(Help, FindsCodesInAnyCaseNamesTheNearestAndListsAll) {
  EXPECT_EQ(run({"help", "ls-1009"}).out, run({"help", "LS-1009"}).out);
  const Ran ran = run({"help", "LS-9999"});
  EXPECT_EQ(ran.exit, Exit::usage);
  EXPECT_THAT(ran.err, HasSubstr("the nearest: LS-9"));
  EXPECT_THAT(run({"help", "LS-1022"}).err, HasSubstr("LS-1021 and LS-"));
  const std::string all = run({"help", "errors"}).out;
  EXPECT_THAT(all, HasSubstr("LS-1003  unknown configuration key"));
  EXPECT_THAT(all, HasSubstr("LS-9001"));
}

TEST(Help, SaysWhatEveryCommandPrintsWithJson) {
  for (const Command& command : commands()) {
    EXPECT_FALSE(command.json.empty()) << command.name;
    EXPECT_THAT(cli_markdown(), HasSubstr(std::string(command.json)));
  }
}

TEST(Help, PrintsTheDocuments) {
  EXPECT_EQ(run({"help", "--markdown", "config"}).out, config::config_markdown());
  EXPECT_EQ(run({"help", "--markdown", "cli"}).out, cli_markdown());
  EXPECT_EQ(run({"help", "--markdown", "other"}).exit, Exit::usage);
}

TEST(Help, RefusesANameOrASecondDocumentBesideADocument) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"help", "--schema", "foo"},
                                                {"help", "optimizer.lr", "--schema"},
                                                {"help", "--markdown", "cli", "plan"},
                                                {"help", "--schema", "--markdown", "cli"},
                                                {"--version", "plan"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.exit, Exit::usage) << words.back();
    EXPECT_THAT(ran.err, HasSubstr("LS-1014")) << words.back();
    EXPECT_EQ(ran.out, "") << words.back();
  }
  EXPECT_THAT(run({"help", "--schema", "foo"}).err, HasSubstr("--schema takes no NAME, and foo"));
  EXPECT_EQ(run({"--version", "--json"}).exit, Exit::ok);
}

TEST(RunProgram, ReadsNoColorAndTheLocaleFromTheEnvironment) {
  std::ostringstream out;
  std::ostringstream err;
  const auto plan = [&](std::string variable) {
    out.str("");
    (void)run_program(
        {"plan"},
        {.out = out, .err = err, .color = true, .get_env = [&](const char* name) -> const char* {
           return variable == name ? "C.UTF-8" : nullptr;
         }});
    return out.str();
  };
  EXPECT_THAT(plan("none"), HasSubstr("\x1b["));
  EXPECT_THAT(plan("NO_COLOR"), Not(HasSubstr("\x1b[")));
  EXPECT_THAT(plan("LANG"), HasSubstr("\xe2\x96"));
  EXPECT_THAT(plan("none"), Not(HasSubstr("\xe2\x96")));
}

}  // namespace
}  // namespace lockstep::cli
