#include "lockstep/checkpoint/bench/request.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

TEST(BenchRequest, IsReadAsItWasWritten) {
  const BenchRequest request{"/tmp/x", 1 << 20, 3, 2};
  EXPECT_EQ(bench_request_from(to_json_text(request)), request);
}

TEST(BenchRequest, ThatMakesNoSenseIsRefused) {
  for (const char* text :
       {"", "[]", "{}", "7", R"({"dir":"","bytes":1,"rounds":1,"first_round":1})",
        R"({"dir":"x","bytes":0,"rounds":1,"first_round":1})",
        R"({"dir":"x","bytes":1,"rounds":0,"first_round":1})",
        R"({"dir":"x","bytes":"1","rounds":1,"first_round":1})"}) {
    EXPECT_THROW((void)bench_request_from(text), BadData) << text;
  }
}

TEST(BenchSample, IsReadAsItWasWritten) {
  for (int part = 0; part < kBenchParts; ++part) {
    const BenchSample sample{static_cast<BenchPart>(part), 2, 0.125};
    EXPECT_EQ(bench_sample_from(to_json_text(sample)), sample);
  }
}

TEST(BenchSample, OfAnUnknownPartOrTimeIsRefused) {
  for (const char* text : {"{}", "null", R"({"part":"sav","round":1,"seconds":1})",
                           R"({"part":"save","round":1,"seconds":-1})",
                           R"({"part":"save","round":1,"seconds":null})"}) {
    EXPECT_THROW((void)bench_sample_from(text), BadData) << text;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
