#include "lockstep/comm/shm/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
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

/// One collective with its buffers, and what must come out.
struct Try {
  Request request;
  Values input;
  Values output;
  Values expected;
};

std::size_t uneven_count(std::uint64_t k, std::size_t from, std::size_t to) {
  return (k * 31 + from * 17 + to * 7) % 700;
}

void add_all_to_all(Try& t, std::uint64_t k, int rank, int ranks) {
  const bool uneven = k % 2 == 0;
  t.request.kind.uneven = uneven;
  const auto me = static_cast<std::size_t>(rank);
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    const std::size_t to = uneven ? uneven_count(k, me, r) : t.request.count;
    const std::size_t from = uneven ? uneven_count(k, r, me) : t.request.count;
    const Values sent = values_of(k, rank, r * 1000, to);
    const Values received = values_of(k, static_cast<int>(r), me * 1000, from);
    t.input.insert(t.input.end(), sent.begin(), sent.end());
    t.expected.insert(t.expected.end(), received.begin(), received.end());
    if (uneven) t.request.send_counts.push_back(to);
    if (uneven) t.request.receive_counts.push_back(from);
  }
}

Try make_try(std::uint64_t k, Collective collective, std::size_t count, int rank, int ranks) {
  Try t;
  const auto n = static_cast<std::size_t>(ranks);
  const int root = static_cast<int>(k % n);
  const bool is_root = rank == root;
  t.request.kind = {collective, ElementType::i64, Reduction::sum, 0, false};
  t.request.count = count;
  t.request.site = "try " + std::to_string(k);
  t.input = values_of(k, rank, 0, count);
  switch (collective) {
    case Collective::all_reduce:
      t.expected = sum_of(k, ranks, 0, count);
      break;
    case Collective::reduce:
      if (is_root) t.expected = sum_of(k, ranks, 0, count);
      break;
    case Collective::reduce_scatter:
      t.input = values_of(k, rank, 0, count * n);
      t.expected = sum_of(k, ranks, static_cast<std::size_t>(rank) * count, count);
      break;
    case Collective::broadcast:
      t.expected = values_of(k, root, 0, count);
      break;
    case Collective::gather:
    case Collective::all_gather:
      if (collective == Collective::gather && !is_root) break;
      for (int r = 0; r < ranks; ++r) {
        const Values part = values_of(k, r, 0, count);
        t.expected.insert(t.expected.end(), part.begin(), part.end());
      }
      break;
    case Collective::scatter:
      t.input = is_root ? values_of(k, root, 0, count * n) : Values{};
      t.expected = values_of(k, root, static_cast<std::size_t>(rank) * count, count);
      break;
    case Collective::all_to_all:
      t.input.clear();
      add_all_to_all(t, k, rank, ranks);
      break;
    case Collective::barrier:
      t.request.count = 0;
      break;
  }
  if (collective == Collective::reduce || collective == Collective::broadcast ||
      collective == Collective::gather || collective == Collective::scatter) {
    t.request.kind.root = static_cast<std::uint32_t>(root);
  }
  t.output.assign(t.expected.size(), -1);
  if (collective == Collective::broadcast && is_root) t.output = t.input;
  t.request.input = t.input.data();
  t.request.output = t.output.data();
  return t;
}

/// The same on every rank: sizes around every border of the ways a collective can take.
std::size_t random_count(std::mt19937& random) {
  constexpr std::size_t kBorders[] = {1, 4, 5, 512, 2048, 2049, 4096, 8192, 8193, 20000};
  const std::size_t border = kBorders[random() % std::size(kBorders)];
  return random() % 2 == 0 ? border : 1 + random() % border;
}

void run_random_sequence(Engine& engine, int rank, int ranks, unsigned seed, int length) {
  std::mt19937 random(seed);
  std::vector<std::pair<Try, std::shared_ptr<Operation>>> in_flight;
  for (int k = 0; k < length; ++k) {
    const auto collective = static_cast<Collective>(random() % 9);
    const std::size_t count = random_count(random);
    const bool later = random() % 2 == 0;
    in_flight.emplace_back(
        make_try(seed * 1000U + static_cast<unsigned>(k), collective, count, rank, ranks), nullptr);
    in_flight.back().second = engine.issue(in_flight.back().first.request);
    if (later && in_flight.size() < 8) continue;
    for (auto& [attempt, operation] : in_flight) {
      engine.wait(*operation, kDeadline);
      ASSERT_EQ(attempt.output, attempt.expected)
          << name(attempt.request.kind.collective) << " of " << attempt.request.count << " on rank "
          << rank << " of " << ranks << ", seed " << seed;
    }
    in_flight.clear();
  }
  for (auto& [attempt, operation] : in_flight) engine.wait(*operation, kDeadline);
}

TEST(ShmEngine, RandomSequencesOfCollectivesGiveWhatOneProcessComputes) {
  for (unsigned seed = 1; seed <= 24; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 5);
    const auto errors = run_ranks(ranks, [&](Engine& engine, const Segment& segment) {
      run_random_sequence(engine, segment.rank(), ranks, seed, 60);
    });
    for (const auto& error : errors) ASSERT_EQ(error, "") << "seed " << seed;
    if (::testing::Test::HasFailure()) return;
  }
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
