#include "lockstep/planner/deepspeed_file.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::planner {
namespace {

using parallel::Offload;

TEST(DeepSpeedFile, SaysStageAndWhatIsOffloaded) {
  const DeepSpeedFile file = read_deepspeed_file(
      R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"},
          "offload_param": {"device": "cpu"}}})",
      "ds.json");
  EXPECT_EQ(file.zero, 3);
  EXPECT_EQ(file.offload_optimizer, Offload::nvme);
  EXPECT_EQ(file.offload_parameters, Offload::cpu);
}

TEST(DeepSpeedFile, KnowsDefaultsAndOldNames) {
  EXPECT_EQ(read_deepspeed_file("{}", "ds.json").zero, 0);
  const DeepSpeedFile old = read_deepspeed_file(
      R"({"zero_optimization": {"stage": 2, "cpu_offload": true, "offload_param": null}})",
      "ds.json");
  EXPECT_EQ(old.zero, 2);
  EXPECT_EQ(old.offload_optimizer, Offload::cpu);
  EXPECT_EQ(old.offload_parameters, Offload::none);
}

std::size_t problems_of(const char* text) {
  try {
    (void)read_deepspeed_file(text, "ds.json");
  } catch (const UsageError& error) {
    for (const Problem& problem : error.problems()) EXPECT_EQ(problem.code, "LS-6115");
    return error.problems().size();
  }
  return 0;
}

TEST(DeepSpeedFile, IsRefusedWithAllThatIsWrong) {
  EXPECT_EQ(problems_of("{"), 1U);
  EXPECT_EQ(problems_of("[3]"), 1U);
  EXPECT_EQ(problems_of(R"({"zero_optimization": 3})"), 1U);
  EXPECT_EQ(problems_of(R"({"zero_optimization": {"stage": "auto",
                             "offload_optimizer": {"pin_memory": true},
                             "offload_param": {"device": "gpu"}}})"),
            3U);
}

}  // namespace
}  // namespace lockstep::planner
