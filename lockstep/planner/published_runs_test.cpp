#include "lockstep/planner/published_runs.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::planner {
namespace {

constexpr const char* kHeading =
    "id,source,model,layers,hidden,heads,kv_heads,ffn,seq,vocab,device,software,n_dev,tp,pp,dp,cp,"
    "vp,mbs,gbs,sharding,precision,recompute,tok_s_dev,tflops_dev,mfu_pct,iter_s,mem_dev_GiB,"
    "note\n";

PublishedRow row_of(const std::string& line) { return read_published_rows(kHeading + line).at(0); }

PublishedRow megatron() {
  return row_of(
      "a,\"b, c\",GPT,60,10240,80,,40960,2048,51200,A100-80G,Megatron-LM "
      "2021,1024,8,4,32,,3,2,1792,,"
      "fp16,full,,140,,,,");
}

TEST(PublishedRuns, ReadLayoutsFromTheirColumns) {
  const PublishedRun run = plan_of(megatron());
  EXPECT_EQ(run.source, "b, c");
  EXPECT_EQ(run.layout.tensor, 8);
  EXPECT_EQ(run.layout.chunks, 3);
  EXPECT_EQ(run.layout.micro_batch, 2);
  EXPECT_EQ(run.layout.accumulation, 28);
  EXPECT_EQ(run.layout.recompute, parallel::Recompute::full);
  EXPECT_FALSE(run.layout.flash_attention);
  EXPECT_EQ(run.recipe->name, "fp16");
  EXPECT_TRUE(run.assumptions.empty());
}

TEST(PublishedRuns, TurnFlopsIntoSecondsAsTheirSourceCountsThem) {
  // 96 x 1792 x 2048 x 60 x 10240^2 x (1 + 1/30 + 51200 / (16 x 60 x 10240)) / (1024 x 140e12)
  EXPECT_NEAR(measured_step_s(megatron(), plan_of(megatron())), 16.06, 0.01);
  PublishedRow timed = megatron();
  timed["iter_s"] = "7.5";
  EXPECT_EQ(measured_step_s(timed, plan_of(timed)), 7.5);
  PublishedRow silent = megatron();
  silent["tflops_dev"] = "";
  EXPECT_EQ(measured_step_s(silent, plan_of(silent)), 0);
}

TEST(PublishedRuns, SayWhatTheyHadToAssume) {
  PublishedRow row = megatron();
  row["software"] = "Megatron-Core 0.8";
  row["mbs"] = "";
  row["vp"] = "";
  const PublishedRun run = plan_of(row);
  EXPECT_EQ(run.assumptions.size(), 2U);
  EXPECT_EQ(run.layout.chunks, 15);
  row["software"] = "something new";
  EXPECT_EQ(plan_of(row).assumptions.front(), "software as Megatron-Core 0.8");
}

TEST(PublishedRuns, TakeTheNetworkThatTheirSourcePrinted) {
  PublishedRow row = megatron();
  row["note"] = "device as printed: A100-80G 400Gbps";
  EXPECT_DOUBLE_EQ(plan_of(row).machine.between.line_bytes_per_s, 400e9 / 8 / 8);
}

TEST(PublishedRuns, RefuseWhatTheyCannotRead) {
  EXPECT_THROW((void)read_published_rows(std::string(kHeading) + "a,b\n"), BadData);
  PublishedRow row = megatron();
  row["device"] = "abacus";
  EXPECT_THROW((void)plan_of(row), BadData);
  row = megatron();
  row["tp"] = "eight";
  EXPECT_THROW((void)plan_of(row), BadData);
}

}  // namespace
}  // namespace lockstep::planner
