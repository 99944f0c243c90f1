#include "lockstep/cli/worker_program.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::cli {
namespace {

TEST(WorkerProgram, StandsBesideTheFrontOrIsMissed) {
  std::ostringstream sink;
  const Context context{.out = sink, .err = sink, .program_path = "/nonexistent/bin/lockstep"};
  try {
    (void)find_worker(context);
    FAIL() << "found a worker where none is";
  } catch (const EnvironmentFault& error) {
    EXPECT_EQ(error.problems()[0].where, "/nonexistent/bin/lockstep-worker");
  }
}

TEST(WorkerProgram, ARankGetsTheFlagsThatConcernIt) {
  const Args args({{"--set", {"a.b=1", "c.d=2"}},
                   {"--nproc-per-node", {"2"}},
                   {"--as", {"rank"}},
                   {"--resume", {"none"}},
                   {"--allow-change", {"data"}},
                   {"--run-dir", {}},
                   {"--json", {""}},
                   {"--quiet", {}},
                   {"--no-color", {}}},
                  {"run.toml"});
  EXPECT_EQ(rank_arguments("/bin/lockstep-worker", args),
            (std::vector<std::string>{"/bin/lockstep-worker", "train", "run.toml", "--set", "a.b=1",
                                      "--set", "c.d=2", "--resume", "none", "--allow-change",
                                      "data", "--json"}));
}

TEST(WorkerProgram, ItsLastErrorsAreRead) {
  const std::vector<Problem> problems{{"LS-2001", "a\"b", "is not there", "get it"}};
  const std::string printed = "a warning\n{\"errors\":[]}\n" + to_json_text(problems) + "\nbye";
  EXPECT_EQ(problems_of_worker(printed), problems);
}

TEST(WorkerProgram, WhatIsNotItsErrorsIsNothing) {
  for (const char* printed : {"", "Segmentation fault", "{\"errors\":", "{\"errors\":[1]}",
                              "{\"errors\":{}}", "[\"errors\"]"}) {
    EXPECT_TRUE(problems_of_worker(printed).empty()) << printed;
  }
}

}  // namespace
}  // namespace lockstep::cli
