#include "lockstep/memory/block_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::int64_t of(const std::array<std::int64_t, kCategoryCount>& bytes, Category category) {
  return bytes[static_cast<std::size_t>(category)];
}

TEST(BlockCache, BlocksAreAlignedAndWritableToTheirEnd) {
  BlockCache cache;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{64}, std::size_t{1000}, 128 * 1024 - std::size_t{1},
        std::size_t{128 * 1024}, kMiB + 1, 4 * kMiB, 5 * kMiB + 12345, 33 * kMiB}) {
    void* block = cache.allocate(bytes, Category::buffers);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
    std::memset(block, 0x5A, bytes);
    cache.free(block);
  }
  cache.release_cached();
  EXPECT_EQ(cache.usage().cached_bytes, 0);
}

TEST(BlockCache, BigBlocksStartOnAHugePage) {
  BlockCache cache;
  void* block = cache.allocate(9 * kMiB, Category::activations);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2 * kMiB), 0U);
  cache.free(block);
  cache.release_cached();
}

TEST(BlockCache, AFreedBlockServesTheNextRequestOfItsSizeOrALittleLess) {
  BlockCache cache;
  void* first = cache.allocate(10 * kMiB, Category::gradients);
  cache.free(first);
  EXPECT_EQ(cache.usage().cached_bytes, static_cast<std::int64_t>(10 * kMiB));
  void* second = cache.allocate(9 * kMiB, Category::activations);
  EXPECT_EQ(second, first);
  EXPECT_EQ(cache.usage().cached_bytes, 0);
  EXPECT_EQ(of(cache.usage().current_bytes, Category::activations),
            static_cast<std::int64_t>(9 * kMiB));
  cache.free(second);
  void* half = cache.allocate(5 * kMiB, Category::activations);
  EXPECT_NE(half, first) << "half a block would be wasted";
  cache.free(half);
  cache.release_cached();
}

TEST(BlockCache, ABudgetRefusesWhatWouldPassItAndBoundsWhatIsKept) {
  BlockCache cache;
  void* first = cache.allocate(8 * kMiB, Category::activations);
  cache.set_budget(12 * kMiB);
  try {
    (void)cache.allocate(8 * kMiB, Category::activations);
    FAIL() << "a block beyond the budget was handed out";
  } catch (const EnvironmentFault& fault) {
    EXPECT_EQ(fault.problems().front().code, kOutOfMemoryCode);
  }
  EXPECT_EQ(of(cache.usage().current_bytes, Category::activations),
            static_cast<std::int64_t>(8 * kMiB));
  cache.free(first);
  void* second = cache.allocate(6 * kMiB, Category::activations);  // the freed one goes for it
  EXPECT_LE(cache.held_bytes(), 12 * kMiB);
  EXPECT_EQ(cache.usage().cached_bytes, 0);
  cache.set_budget(std::numeric_limits<std::size_t>::max());
  void* third = cache.allocate(20 * kMiB, Category::activations);
  cache.free(second);
  cache.free(third);
  cache.release_cached();
}

TEST(BlockCache, APeakForgottenNoLongerBoundsWhatIsKept) {
  BlockCache cache;
  void* large = cache.allocate(64 * kMiB, Category::activations);
  cache.free(large);
  EXPECT_EQ(cache.held_bytes(), 64 * kMiB);
  cache.release_cached();
  cache.reset_peak(/*cache_too=*/true);
  void* small = cache.allocate(20 * kMiB, Category::activations);
  void* other = cache.allocate(20 * kMiB, Category::activations);
  cache.free(other);
  cache.free(small);
  EXPECT_LE(cache.held_bytes(), 60 * kMiB);  // 40 in use at most, and 16 beside them
  cache.release_cached();
}

TEST(BlockCache, CountsRequestedBytesByCategoryUntilTheyAreFreed) {
  BlockCache cache;
  void* weights = cache.allocate(1000, Category::parameters);
  void* batch = cache.allocate(3 * kMiB + 5, Category::buffers);
  EXPECT_EQ(of(cache.usage().current_bytes, Category::parameters), 1000);
  EXPECT_EQ(of(cache.usage().current_bytes, Category::buffers),
            static_cast<std::int64_t>(3 * kMiB + 5));
  cache.free(batch);
  EXPECT_EQ(of(cache.usage().current_bytes, Category::buffers), 0);
  EXPECT_EQ(cache.usage().peak_total_bytes, static_cast<std::int64_t>(3 * kMiB + 1005));
  cache.free(weights);
  cache.release_cached();
}

TEST(BlockCache, PeaksOfCategoriesAreThoseOfTheMomentTheTotalPeaked) {
  BlockCache cache;
  void* activations = cache.allocate(8000, Category::activations);
  void* weights = cache.allocate(1000, Category::parameters);
  cache.free(activations);
  void* gradients = cache.allocate(5000, Category::gradients);  // 6000 in all: no new peak
  auto usage = cache.usage();
  EXPECT_EQ(usage.peak_total_bytes, 9000);
  EXPECT_EQ(of(usage.peak_bytes, Category::activations), 8000);
  EXPECT_EQ(of(usage.peak_bytes, Category::gradients), 0);
  cache.reset_peak();
  usage = cache.usage();
  EXPECT_EQ(usage.peak_total_bytes, 6000);
  EXPECT_EQ(of(usage.peak_bytes, Category::gradients), 5000);
  EXPECT_EQ(of(usage.peak_bytes, Category::activations), 0);
  cache.free(weights);
  cache.free(gradients);
  cache.release_cached();
}

TEST(BlockCache, KeepsAllBlocksOfAStepButNoMoreThanUseOnceNeeded) {
  BlockCache cache;
  std::vector<void*> step;
  for (int i = 0; i < 20; ++i) step.push_back(cache.allocate(16 * kMiB, Category::activations));
  for (void* block : step) cache.free(block);
  EXPECT_EQ(cache.usage().cached_bytes, static_cast<std::int64_t>(320 * kMiB));
  // Another shape: the old blocks make room, the oldest first.
  std::vector<void*> other;
  for (int i = 0; i < 10; ++i) other.push_back(cache.allocate(30 * kMiB, Category::activations));
  EXPECT_LE(cache.usage().cached_bytes, static_cast<std::int64_t>(84 * kMiB));
  for (void* block : other) cache.free(block);
  EXPECT_LE(cache.usage().cached_bytes, static_cast<std::int64_t>(384 * kMiB));
  cache.release_cached();
}

TEST(BlockCache, TheBlockUnusedLongestGoesFirst) {
  BlockCache cache;
  std::array<void*, 3> blocks{};
  for (void*& block : blocks) block = cache.allocate(64 * kMiB, Category::buffers);
  for (void* block : blocks) cache.free(block);
  // 192 MiB were needed, so 192 + 24 may stay: beside 80 there is room for two of the three.
  void* other = cache.allocate(80 * kMiB, Category::buffers);
  EXPECT_EQ(cache.usage().cached_bytes, static_cast<std::int64_t>(128 * kMiB));
  void* first = cache.allocate(64 * kMiB, Category::buffers);
  void* second = cache.allocate(64 * kMiB, Category::buffers);
  EXPECT_EQ(first, blocks[2]);
  EXPECT_EQ(second, blocks[1]);
  for (void* block : {other, first, second}) cache.free(block);
  cache.release_cached();
}

TEST(BlockCache, ForeignPointersGoToFree) {
  BlockCache cache;
  void* foreign = nullptr;
  ASSERT_EQ(::posix_memalign(&foreign, 64, 4096), 0);
  std::memset(foreign, 1, 4096);
  cache.free(foreign);
  cache.free(nullptr);
  EXPECT_EQ(cache.usage().cached_bytes, 0);
}

TEST(BlockCache, RefusesWhatNoMachineHasAndCountsNothing) {
  BlockCache cache;
  for (const int exponent : {46, 50, 63}) {
    EXPECT_THROW((void)cache.allocate(std::size_t{1} << exponent, Category::buffers),
                 EnvironmentFault);
  }
  EXPECT_EQ(of(cache.usage().current_bytes, Category::buffers), 0);
}

TEST(BlockCache, ManyThreadsTakeAndFreeEachOthersBlocks) {
  BlockCache cache;
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, std::size_t>> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 3000; ++i) {
      const std::size_t bytes = 1 + random() % (i % 50 == 0 ? 300'000 : 3000);
      auto* block =
          static_cast<unsigned char*>(cache.allocate(bytes, static_cast<Category>(random() % 6)));
      block[0] = block[bytes - 1] = static_cast<unsigned char>(bytes);
      const std::lock_guard lock(mutex);
      shared.emplace_back(block, bytes);
      if (shared.size() < 40) continue;
      std::swap(shared[random() % shared.size()], shared.back());
      const auto [victim, victim_bytes] = shared.back();
      shared.pop_back();
      ASSERT_EQ(victim[victim_bytes - 1], static_cast<unsigned char>(victim_bytes));
      cache.free(victim);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (auto& thread : threads) thread.join();
  for (const auto& [block, bytes] : shared) cache.free(block);
  for (const auto bytes : cache.usage().current_bytes) EXPECT_EQ(bytes, 0);
  cache.release_cached();
}

}  // namespace
}  // namespace lockstep::memory
