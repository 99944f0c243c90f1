#include "lockstep/cli/run_flags.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

Args args_of(std::vector<std::string> sets, std::vector<std::string> nproc,
             std::vector<std::string> words = {}) {
  return {{{"--set", std::move(sets)}, {"--nproc-per-node", std::move(nproc)}}, std::move(words)};
}

TEST(ReadRun, WithoutAFileTheDefaultsAndSetsCount) {
  EXPECT_EQ(read_run(args_of({"run.seed=9"}, {})).run.seed, 9);
  EXPECT_THROW((void)read_run(args_of({"run.sed=9"}, {})), UsageError);
  EXPECT_THROW((void)read_run(args_of({}, {}, {"/nonexistent/run.toml"})), UsageError);
}

TEST(RanksOf, TakesTheFlagThenTheFileThenOne) {
  Host host;
  host.cores = 8;
  config::RunConfig config;
  EXPECT_EQ(ranks_of(args_of({}, {}), config, host), 1);
  config.parallel.data = 3;
  EXPECT_EQ(ranks_of(args_of({}, {}), config, host), 3);
  EXPECT_EQ(ranks_of(args_of({}, {"2"}), config, host), 2);
  EXPECT_EQ(ranks_of(args_of({}, {"auto"}), config, host), 8);
  config.run.threads = 4;
  EXPECT_EQ(ranks_of(args_of({}, {"auto"}), config, host), 2);
  config.run.threads = 100;
  EXPECT_EQ(ranks_of(args_of({}, {"auto"}), config, host), 1);
}

}  // namespace
}  // namespace lockstep::cli
