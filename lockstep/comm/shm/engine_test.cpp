#include "lockstep/comm/shm/engine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm {
namespace {

using testing::run_ranks;
using Values = std::vector<std::int64_t>;
using namespace std::chrono_literals;

constexpr std::chrono::seconds kDeadline{60};

/// What rank r holds at position i of collective k; any rank can tell.
std::int64_t value_of(std::uint64_t k, int r, std::size_t i) {
  return static_cast<std::int64_t>(
             (k * 1000003 + static_cast<std::uint64_t>(r) * 7919 + i * 104729) % 100003) -
         50000;
}

Values values_of(std::uint64_t k, int r, std::size_t first, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(k, r, first + i);
  return values;
}

Values sum_of(std::uint64_t k, int ranks, std::size_t first, std::size_t count) {
  Values values(count);
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) values[i] += value_of(k, r, first + i);
  }
  return values;
}

TEST(ShmEngine, AnAllReduceInPlaceLeavesTheSumOnEveryRank) {
  for (const std::size_t count : {1U, 8U, 1000U, 100000U}) {
    const auto errors = run_ranks(3, [&](Engine& engine, const Segment& segment) {
      Values values = values_of(1, segment.rank(), 0, count);
      Request request;
      request.kind = {Collective::all_reduce, ElementType::i64, Reduction::sum, 0, false};
      request.input = request.output = values.data();
      request.count = count;
      engine.wait(*engine.issue(request), kDeadline);
      EXPECT_EQ(values, sum_of(1, 3, 0, count));
    });
    for (const auto& error : errors) EXPECT_EQ(error, "");
  }
}

TEST(ShmEngine, LargeSumsHaveTheSameBitsAsSmallOnes) {
  constexpr std::size_t kCount = 60000;
  const auto errors = run_ranks(4, [&](Engine& engine, const Segment& segment) {
    std::mt19937 random(static_cast<unsigned>(segment.rank()));
    std::vector<float> values(kCount);
    for (float& value : values) value = std::normal_distribution<float>()(random);
    std::vector<float> whole = values;
    std::vector<float> parts = values;
    const auto all_reduce = [&](float* at, std::size_t count) {
      Request request;
      request.kind = {Collective::all_reduce, ElementType::f32, Reduction::sum, 0, false};
      request.input = request.output = at;
      request.count = count;
      engine.wait(*engine.issue(request), kDeadline);
    };
    all_reduce(whole.data(), kCount);
    for (std::size_t at = 0; at < kCount; at += 1000) all_reduce(parts.data() + at, 1000);
    EXPECT_EQ(whole, parts);
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

/// Both ranks' errors when rank r enters with `requests[r]`.
std::vector<std::string> errors_of(const std::vector<Request>& requests) {
  return run_ranks(static_cast<int>(requests.size()), [&](Engine& engine, const Segment& segment) {
    Request request = requests[static_cast<std::size_t>(segment.rank())];
    std::vector<std::byte> buffer(1 << 20);
    request.input = request.output = buffer.data();
    engine.wait(*engine.issue(request), kDeadline);
    ADD_FAILURE() << "a value was returned";
  });
}

Request request_of(Collective collective, ElementType type, std::size_t count, const char* site) {
  Request request;
  request.kind = {collective, type, Reduction::sum, 0, false};
  request.count = count;
  request.site = site;
  return request;
}

TEST(ShmEngine, OtherCountsAreRefusedOnEveryRankWithBothCallSites) {
  for (const auto& error :
       errors_of({request_of(Collective::all_reduce, ElementType::f32, 409600, "a.cpp:1"),
                  request_of(Collective::all_reduce, ElementType::f32, 409598, "b.cpp:2")})) {
    EXPECT_NE(error.find("rank 0 entered all_reduce (sum) of 409600 float32 at a.cpp:1"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("rank 1 entered all_reduce (sum) of 409598 float32 at b.cpp:2"),
              std::string::npos)
        << error;
  }
}

TEST(ShmEngine, OtherTypesAndOtherCollectivesAreRefused) {
  for (const auto& error :
       errors_of({request_of(Collective::all_reduce, ElementType::f32, 4, ""),
                  request_of(Collective::all_reduce, ElementType::i32, 4, "")})) {
    EXPECT_NE(error.find("4 float32"), std::string::npos) << error;
    EXPECT_NE(error.find("4 int32"), std::string::npos) << error;
  }
  for (const auto& error :
       errors_of({request_of(Collective::all_reduce, ElementType::f32, 4, ""),
                  request_of(Collective::all_gather, ElementType::f32, 4, "")})) {
    EXPECT_NE(error.find("all_gather of 4"), std::string::npos) << error;
  }
}

TEST(ShmEngine, ARankThatNeverComesIsNamedWhenTheDeadlinePasses) {
  const auto errors = run_ranks(3, [&](Engine& engine, const Segment& segment) {
    if (segment.rank() == 1) return;  // its engine goes, its peers' wait ends all the same
    std::vector<float> values(100000);
    Request request =
        request_of(Collective::all_reduce, ElementType::f32, values.size(), "bucket 4");
    request.input = request.output = values.data();
    engine.wait(*engine.issue(request), 300ms);
  });
  EXPECT_EQ(errors[1], "");
  for (const int r : {0, 2}) {
    const std::string& error = errors[static_cast<std::size_t>(r)];
    EXPECT_NE(error.find("all_reduce #1 (bucket 4): rank 1 has not entered it"), std::string::npos)
        << error;
  }
}

TEST(ShmEngine, AfterTheGroupIsOverNothingIsIssued) {
  const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
    if (segment.rank() == 0) segment.abort("rank 0 failed");
    Request request = request_of(Collective::barrier, ElementType::u8, 0, "");
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(engine.wait(*engine.issue(request), kDeadline), PeerLost);
    }
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(ShmEngine, OperationsProgressWhileNobodyWaits) {
  const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
    Values values = values_of(1, segment.rank(), 0, 100000);
    Request request = request_of(Collective::all_reduce, ElementType::i64, values.size(), "");
    request.input = request.output = values.data();
    const auto operation = engine.issue(request);
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (!operation->done() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(operation->done());
    engine.wait(*operation, kDeadline);
    EXPECT_EQ(values, sum_of(1, 2, 0, values.size()));
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace lockstep::comm::shm
