#include "lockstep/launch/rank_environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::launch {
namespace {

bool has(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

bool has_key(const std::vector<std::string>& list, const std::string& key) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& entry) { return entry.starts_with(key + "="); });
}

TEST(RankEnvironment, HasEveryVariableOfTorchrun) {
  LocalJobOptions options;
  options.nproc_per_node = 4;
  options.threads_per_rank = 2;
  RankPlace place;
  place.local_rank = 3;
  place.store_port = 4321;
  options.place.run_id = "job";
  const auto env = rank_environment(options, place, {"HOME=/home/ann"});
  for (const char* entry :
       {"RANK=3", "LOCAL_RANK=3", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=0",
        "GROUP_WORLD_SIZE=1", "ROLE_RANK=3", "ROLE_NAME=default", "ROLE_WORLD_SIZE=4",
        "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4321", "TORCHELASTIC_RESTART_COUNT=0",
        "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=job",
        "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "OMP_NUM_THREADS=2", "HOME=/home/ann"}) {
    EXPECT_TRUE(has(env, entry)) << entry;
  }
}

TEST(RankEnvironment, SaysWhereAHostStandsInAJobOfSeveral) {
  LocalJobOptions options;
  options.nproc_per_node = 2;
  options.threads_per_rank = 0;
  options.place = {4, 7, 1, 3, 2, 5, "trainer", "job", 2, 9};
  RankPlace place;
  place.local_rank = 1;
  const auto env = rank_environment(options, place, {"OMP_NUM_THREADS=6"});
  for (const char* entry :
       {"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=7", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
        "GROUP_WORLD_SIZE=3", "ROLE_RANK=3", "ROLE_WORLD_SIZE=5", "ROLE_NAME=trainer",
        "TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_MAX_RESTARTS=9", "OMP_NUM_THREADS=6"}) {
    EXPECT_TRUE(has(env, entry)) << entry;
  }
}

TEST(RankEnvironment, NothingOfAnOuterJobComesThrough) {
  const std::vector<std::string> outer{"RANK=7", "OMP_NUM_THREADS=9", "LOCKSTEP_REPORT_FD=5",
                                       "TORCHELASTIC_ERROR_FILE=/x",
                                       "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"};
  const auto env = rank_environment({}, {}, outer);
  EXPECT_TRUE(has(env, "RANK=0"));
  EXPECT_TRUE(has(env, "OMP_NUM_THREADS=1"));
  EXPECT_FALSE(has_key(env, "LOCKSTEP_REPORT_FD"));
  EXPECT_FALSE(has_key(env, "TORCHELASTIC_ERROR_FILE"));
  EXPECT_TRUE(has(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=3")) << "the user's own choice was lost";
}

TEST(RankEnvironment, ExtraVariablesWinAndEachKeyIsThereOnce) {
  LocalJobOptions options;
  options.extra_env = {"RANK=5", "NEW=a=b"};
  RankPlace place;
  place.report_fd = 3;
  place.error_file = "/logs/error.json";
  const auto env = rank_environment(options, place, {"NEW=old", "NEW=older"});
  EXPECT_TRUE(has(env, "RANK=5"));
  EXPECT_TRUE(has(env, "NEW=a=b"));
  EXPECT_TRUE(has(env, "LOCKSTEP_REPORT_FD=3"));
  EXPECT_TRUE(has(env, "TORCHELASTIC_ERROR_FILE=/logs/error.json"));
  EXPECT_EQ(
      std::count_if(env.begin(), env.end(), [](const auto& e) { return e.starts_with("NEW="); }),
      1);
}

}  // namespace
}  // namespace lockstep::launch
