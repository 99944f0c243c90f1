#include "lockstep/comm/bench/request.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

Request small_request() {
  Request request;
  request.backend = "gloo";
  request.against = "gloo";
  request.ops = {Collective::all_reduce, Collective::barrier};
  request.bytes = {4, 1024};
  request.iterations = 3;
  request.rounds = 2;
  request.first_round = 4;
  request.pin = false;
  request.symmetric = true;
  return request;
}

TEST(Request, IsReadAsItWasWritten) {
  const Request wanted = small_request();
  const Request read = request_from_json_text(to_json_text(wanted));
  EXPECT_EQ(read.backend, "gloo");
  EXPECT_EQ(read.against, "gloo");
  EXPECT_EQ(read.ops, wanted.ops);
  EXPECT_EQ(read.bytes, wanted.bytes);
  EXPECT_EQ(read.iterations, 3);
  EXPECT_EQ(read.warmup, wanted.warmup);
  EXPECT_EQ(read.rounds, 2);
  EXPECT_EQ(read.first_round, 4);
  EXPECT_FALSE(read.pin);
  EXPECT_TRUE(read.symmetric);
}

TEST(Request, ABarrierIsTimedOnceWhateverTheSizes) {
  EXPECT_EQ(sizes_of(small_request(), Collective::barrier), std::vector<std::int64_t>{0});
  EXPECT_EQ(sizes_of(small_request(), Collective::all_reduce).size(), 2U);
}

TEST(Request, DamagedTextIsRefused) {
  const std::string good = to_json_text(small_request());
  for (const std::string& bad :
       {std::string("{}"), std::string("x"), good.substr(0, good.size() / 2)}) {
    EXPECT_THROW((void)request_from_json_text(bad), BadData) << bad;
  }
  Request request = small_request();
  request.bytes = {0};
  EXPECT_THROW((void)request_from_json_text(to_json_text(request)), BadData);
  request = small_request();
  request.iterations = 0;
  EXPECT_THROW((void)request_from_json_text(to_json_text(request)), BadData);
  request = small_request();
  request.ops = {static_cast<Collective>(77)};
  EXPECT_THROW((void)request_from_json_text(to_json_text(request)), BadData);
}

}  // namespace
}  // namespace lockstep::bench
