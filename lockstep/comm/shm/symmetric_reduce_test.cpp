#include "lockstep/comm/shm/symmetric_reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/engine.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm {
namespace {

using namespace std::chrono_literals;
using Memory = std::shared_ptr<const SymmetricMemory>;

constexpr std::size_t kArrayBytes = 1 << 20;
constexpr std::size_t kCount = 50'001;  // elements: no multiple of a page, a piece or the ranks

/// The ranks of these tests are threads: rank 0 makes the memory before they start.
class Arrays {
 public:
  explicit Arrays(int ranks)
      : ranks_(ranks), made_(SymmetricMemory::create(0, ranks, kArrayBytes)) {}
  [[nodiscard]] Memory open(int rank) const {
    auto memory = std::make_shared<SymmetricMemory>(
        SymmetricMemory::open(made_.locator(), rank, ranks_, kArrayBytes));
    EXPECT_TRUE(memory->reserve());
    return memory;
  }

 private:
  int ranks_;
  SymmetricMemory made_;
};

Request all_reduce(const Memory& memory, void* data, std::size_t count, ElementType type) {
  Request request;
  request.kind = {.collective = Collective::all_reduce, .type = type};
  request.count = count;
  request.input = request.output = data;
  request.symmetric = memory;
  request.symmetric_number = memory ? 1 : 0;
  return request;
}

template <typename T>
std::vector<T> values(int rank, std::size_t count) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = static_cast<T>(
        static_cast<double>((i * 37 + static_cast<std::size_t>(rank) * 11) % 997) / 7.0);
  }
  return made;
}

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

class SymmetricRanks : public ::testing::TestWithParam<int> {};

TEST_P(SymmetricRanks, ASumHasTheBitsOfOneThroughTheRings) {
  const Arrays arrays(GetParam());
  expect_none(testing::run_ranks(GetParam(), [&](Engine& engine, const Segment& segment) {
    const Memory memory = arrays.open(segment.rank());
    const auto mine = values<float>(segment.rank(), kCount);
    auto* const data = reinterpret_cast<float*>(memory->array(segment.rank()));
    for (int round = 0; round < 20; ++round) {
      std::vector<float> staged = mine;
      std::copy(mine.begin(), mine.end(), data);
      auto in_place = engine.issue(all_reduce(memory, data, kCount, ElementType::f32));
      auto in_steps = engine.issue(all_reduce(nullptr, staged.data(), kCount, ElementType::f32));
      engine.wait(*in_place, 60s);
      engine.wait(*in_steps, 60s);
      ASSERT_EQ(std::memcmp(data, staged.data(), kCount * sizeof(float)), 0);
    }
  }));
}

TEST_P(SymmetricRanks, EveryRankMayUseAnotherPartOfItsArray) {
  const Arrays arrays(GetParam());
  expect_none(testing::run_ranks(GetParam(), [&](Engine& engine, const Segment& segment) {
    const Memory memory = arrays.open(segment.rank());
    auto* const array = reinterpret_cast<std::int64_t*>(memory->array(segment.rank()));
    constexpr std::size_t kWhole = kArrayBytes / sizeof(std::int64_t);
    std::fill(array, array + kWhole, -1);
    const std::size_t begin = 3 + 1000 * static_cast<std::size_t>(segment.rank());
    for (std::size_t i = 0; i < kCount; ++i) array[begin + i] = static_cast<std::int64_t>(i);
    engine.wait(*engine.issue(all_reduce(memory, array + begin, kCount, ElementType::i64)), 60s);
    for (std::size_t i = 0; i < kWhole; ++i) {
      const bool inside = i >= begin && i < begin + kCount;
      const auto wanted = inside ? static_cast<std::int64_t>(i - begin) * GetParam() : -1;
      ASSERT_EQ(array[i], wanted) << i;
    }
  }));
}

TEST_P(SymmetricRanks, WhereABufferLiesElsewhereAllGoThroughTheRings) {
  const Arrays arrays(GetParam());
  expect_none(testing::run_ranks(GetParam(), [&](Engine& engine, const Segment& segment) {
    const Memory memory = arrays.open(segment.rank());
    auto* const array = reinterpret_cast<float*>(memory->array(segment.rank()));
    for (int round = 0; round < 12; ++round) {
      // In turn: only here, only elsewhere, on all ranks, and as if in other memory.
      const int odd_one = round % (GetParam() + 1);
      const bool is_odd = segment.rank() == odd_one;
      std::vector<float> elsewhere = values<float>(segment.rank(), kCount);
      const bool here = is_odd == (round % 3 == 0);
      if (here) std::copy(elsewhere.begin(), elsewhere.end(), array);
      float* const data = here ? array : elsewhere.data();
      Request request = all_reduce(here ? memory : nullptr, data, kCount, ElementType::f32);
      if (here && is_odd && round % 2 == 0) request.symmetric_number = 2;
      std::vector<float> staged = values<float>(segment.rank(), kCount);
      engine.wait(*engine.issue(std::move(request)), 60s);
      engine.wait(*engine.issue(all_reduce(nullptr, staged.data(), kCount, ElementType::f32)), 60s);
      ASSERT_EQ(std::memcmp(data, staged.data(), kCount * sizeof(float)), 0) << round;
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SymmetricRanks, ::testing::Values(1, 2, 3, 4, 5));

TEST(SymmetricMemory, HoldsWhatLiesInItsOwnArrayOnly) {
  const SymmetricMemory memory = SymmetricMemory::create(1, 2, 1000);
  EXPECT_TRUE(memory.reserve());
  EXPECT_TRUE(memory.holds(memory.array(1), 1000));
  EXPECT_TRUE(memory.holds(memory.array(1) + 999, 1));
  EXPECT_FALSE(memory.holds(memory.array(1) + 1, 1000));
  EXPECT_FALSE(memory.holds(memory.array(0), 4));
  EXPECT_FALSE(memory.holds(nullptr, 4));
  EXPECT_EQ(memory.offset_of(memory.array(1) + 12), 12U);
}

TEST(SymmetricMemory, OfAnotherSizeIsRefused) {
  const SymmetricMemory memory = SymmetricMemory::create(0, 2, 10'000);
  EXPECT_THROW((void)SymmetricMemory::open(memory.locator(), 1, 2, 100'000), EnvironmentFault);
}

TEST(SymmetricMemory, ThatFindsNoRoomSaysSo) {
  const std::size_t room = std::filesystem::space("/dev/shm").available;
  const SymmetricMemory memory = SymmetricMemory::create(0, 1, room + (std::size_t{1} << 30));
  EXPECT_FALSE(memory.reserve());
}

}  // namespace
}  // namespace lockstep::comm::shm
