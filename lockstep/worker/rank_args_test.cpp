#include "lockstep/worker/rank_args.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::worker {
namespace {

TEST(RankArgs, ReadsWhatTheFrontWrites) {
  const RankArgs args = parse_rank_args({"train", "run.toml", "--set", "run.steps=3", "--set",
                                         "run.seed=2", "--run-dir", "d", "--json"});
  EXPECT_EQ(args.job_name, "train");
  EXPECT_EQ(args.config_file, "run.toml");
  EXPECT_EQ(args.sets, (std::vector<std::string>{"run.steps=3", "run.seed=2"}));
  EXPECT_EQ(args.run_dir, "d");
  EXPECT_EQ(args.resume, "auto");
  EXPECT_TRUE(args.json);
}

TEST(RankArgs, NamesEveryFaultAtOnce) {
  try {
    (void)parse_rank_args({"train", "--oops", "a.toml", "b.toml", "--set"});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().size(), 3U);
  }
}

TEST(RankArgs, WantsAJobAndExactlyOneSourceOfIt) {
  EXPECT_THROW((void)parse_rank_args({}), UsageError);
  EXPECT_THROW((void)parse_rank_args({"train"}), UsageError);
  EXPECT_THROW((void)parse_rank_args({"train", "a.toml", "--job", "j.json"}), UsageError);
}

}  // namespace
}  // namespace lockstep::worker
