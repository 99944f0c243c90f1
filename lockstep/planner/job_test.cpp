#include "lockstep/planner/job.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"

namespace lockstep::planner {
namespace {

Job some_job() {
  Job job;
  job.config.run.name = "trial";
  job.config.batch.micro_batch = 8;
  job.config.parallel.virtual_ranks = 4;
  job.plan.strategies = {"data_parallel"};
  job.plan.batch.micro_batch = 8;
  job.run_dir = "runs/\"quoted\"";
  job.resume = "none";
  return job;
}

TEST(Job, SurvivesTheTripThroughJson) {
  const Job job = some_job();
  const Job back = job_from_json_text(to_json_text(job));
  EXPECT_EQ(back.run_dir, job.run_dir);
  EXPECT_EQ(back.resume, "none");
  EXPECT_EQ(config::to_json_text(back.config), config::to_json_text(job.config));
  EXPECT_EQ(parallel::to_json_text(back.plan), parallel::to_json_text(job.plan));
}

TEST(Job, CarriesTheOtherCutsOfAFoundBatch) {
  Job job = some_job();
  EXPECT_FALSE(job_from_json_text(to_json_text(job)).search.has_value());
  parallel::ParallelPlan finer = job.plan;
  finer.batch.micro_batch = 4;
  job.search = {{finer}, true, 1'000'000, "runs/.lockstep/a.json", "{\"ranks\":2}", "because"};
  const Job back = job_from_json_text(to_json_text(job));
  ASSERT_TRUE(back.search.has_value());
  ASSERT_EQ(back.search->finer.size(), 1U);
  EXPECT_EQ(back.search->finer[0].batch.micro_batch, 4);
  EXPECT_TRUE(back.search->probes);
  EXPECT_EQ(to_json_text(back), to_json_text(job));
}

TEST(Job, RefusesTextThatIsNotAJob) {
  for (const char* text :
       {"", "3", "{}", "{\"run_dir\":\"a\",\"resume\":\"b\"}",
        "{\"run_dir\":\"a\",\"resume\":\"b\",\"config\":{\"x\":1},\"plan\":{}}"}) {
    EXPECT_THROW((void)job_from_json_text(text), BadData) << text;
  }
}

}  // namespace
}  // namespace lockstep::planner
