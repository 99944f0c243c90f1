#include "lockstep/cli/run_flags.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

Args args_of(std::vector<std::string> sets, std::vector<std::string> nproc,
             std::vector<std::string> words = {}) {
  return {{{"--set", std::move(sets)}, {"--nproc-per-node", std::move(nproc)}}, std::move(words)};
}

TEST(ReadRun, WithoutAFileTheDefaultsAndSetsCount) {
  EXPECT_EQ(read_run(args_of({"run.seed=9"}, {})).config.run.seed, 9);
  EXPECT_EQ(read_run(args_of({"run.sed=9"}, {})).problems.size(), 1U);
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

TEST(RanksOf, RefusesMoreThanAHostRuns) {
  config::RunConfig config;
  config.parallel.data = launch::kMostRanksOfAHost;
  EXPECT_EQ(ranks_of(args_of({}, {}), config, Host{}), launch::kMostRanksOfAHost);
  config.parallel.data = launch::kMostRanksOfAHost + 1;
  EXPECT_THROW((void)ranks_of(args_of({}, {}), config, Host{}), UsageError);
}

TEST(CrowdingText, SaysWhoSharesTheCores) {
  EXPECT_EQ(crowding_text(2, 1, 2), "");
  EXPECT_EQ(crowding_text(4, 2, 2), "4 ranks of 2 threads share 2 cores");
  EXPECT_EQ(crowding_text(1, 1024, 2), "1 rank of 1,024 threads shares 2 cores");
}

}  // namespace
}  // namespace lockstep::cli
