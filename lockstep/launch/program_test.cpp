#include "lockstep/launch/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;

class Program : public testing::Test {
 protected:
  std::string file(const std::string& name, bool is_executable) {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << "#!/bin/sh\n";
    ::chmod(path.c_str(), is_executable ? 0755 : 0644);
    return path;
  }
  static LaunchOptions options(std::vector<std::string> program) {
    LaunchOptions options;
    options.program = std::move(program);
    return options;
  }
  static RankProgram make(const LaunchOptions& options) {
    return make_program(options, [](const char* name) -> const char* {
      return std::string(name) == "PYTHON_EXEC" ? "/opt/python" : std::getenv(name);
    });
  }

  test::ScratchFolder folder_;
};

TEST_F(Program, APythonFileRunsUnderPythonAlsoWhenItIsExecutable) {
  const std::string script = file("train.py", true);
  EXPECT_THAT(make(options({script, "--lr", "1"})).argv,
              ElementsAre("/opt/python", "-u", script, "--lr", "1"));
}

TEST_F(Program, AFileThatIsNotExecutableRunsUnderPython) {
  const std::string script = file("train", false);
  EXPECT_THAT(make(options({script})).argv, ElementsAre("/opt/python", "-u", script));
}

TEST_F(Program, AnExecutableRunsItself) {
  const std::string program = file("solver", true);
  EXPECT_THAT(make(options({program, "a"})).argv, ElementsAre(program, "a"));
  EXPECT_THAT(make(options({"true"})).argv, ElementsAre("true")) << "of PATH";
}

TEST_F(Program, NoPythonForcesThatAndAModuleNeedsPython) {
  auto python_file = options({file("train.py", true)});
  python_file.no_python = true;
  EXPECT_EQ(make(python_file).argv.size(), 1U);
  auto module = options({"pkg.train", "x"});
  module.module = true;
  EXPECT_THAT(make(module).argv, ElementsAre("/opt/python", "-u", "-m", "pkg.train", "x"));
}

TEST_F(Program, RunPathBeatsNoPython) {
  auto script = options({file("train.py", false), "x"});
  script.run_path = true;
  script.no_python = true;
  const auto argv = make(script).argv;
  ASSERT_EQ(argv.size(), 6U);
  EXPECT_EQ(argv[2], "-c");
  EXPECT_EQ(argv[5], "x");
}

TEST_F(Program, WhatDoesNotExistIsAnErrorOfUse) {
  EXPECT_THROW(make(options({"no/such/train.py"})), UsageError);
  EXPECT_THROW(make(options({"no-such-program-anywhere"})), UsageError);
  EXPECT_THROW(make(options({folder_.path().string()})), UsageError) << "no __main__.py in it";
}

TEST_F(Program, OursAreKnownByName) {
  EXPECT_TRUE(make(options({file("lockstep", true), "train"})).is_ours);
  EXPECT_FALSE(make(options({file("other", true)})).is_ours);
}

TEST_F(Program, ARankIsToldItsNumberWhereItWasAskedFor) {
  const auto program =
      make(options({file("train.py", false), "--device=${local_rank}", "$local_rank", "$$1"}));
  const auto argv = local_rank_argv(program, RankFlag::dash, 3);
  EXPECT_EQ(argv[3], "--local-rank=3");
  EXPECT_EQ(argv[4], "--device=3");
  EXPECT_EQ(argv[5], "3");
  EXPECT_EQ(argv[6], "$1");
  EXPECT_EQ(local_rank_argv(program, RankFlag::underscore, 0)[3], "--local_rank=0");
  EXPECT_EQ(local_rank_argv(program, RankFlag::none, 0)[3], "--device=0");
}

TEST_F(Program, WhatIsNoNameOfAValueStaysAsItIs) {
  EXPECT_EQ(
      substituted("${role_name}$ ${x} $1 ${rank ${rank}", {{"rank", "2"}, {"role_name", "r"}}),
      "r$ ${x} $1 ${rank 2");
}

}  // namespace
}  // namespace lockstep::launch
