#include "lockstep/checkpoint/tools/chunks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lockstep::checkpoint {
namespace {

TEST(Chunks, EveryChunkIsDoneOnceByAWorkerThatIsNotBusy) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> done(1000);
    std::vector<std::atomic<int>> busy(5);
    std::atomic<int> clashes = 0;
    for_each_chunk(done.size(), threads, [&](int worker, std::uint64_t chunk) {
      auto& here = busy.at(static_cast<std::size_t>(worker));
      clashes += here++ == 0 ? 0 : 1;
      ++done[chunk];
      --here;
    });
    for (const auto& times : done) ASSERT_EQ(times, 1);
    EXPECT_EQ(clashes, 0);
  }
}

TEST(Chunks, ThereAreNoMoreWorkersThanChunks) {
  EXPECT_EQ(workers_of(0, 4), 1);
  EXPECT_EQ(workers_of(3, 4), 3);
  EXPECT_EQ(workers_of(100, 4), 4);
  EXPECT_EQ(workers_of(100, 0), 1);
  EXPECT_EQ(workers_of(100, -1), 1);
  for_each_chunk(0, 4, [](int, std::uint64_t) { FAIL(); });
}

TEST(Chunks, OneThreadIsTheCallersOwn) {
  const auto here = std::this_thread::get_id();
  for_each_chunk(3, 1, [&](int worker, std::uint64_t) {
    EXPECT_EQ(worker, 0);
    EXPECT_EQ(std::this_thread::get_id(), here);
  });
}

TEST(Chunks, AFailureEndsTheOthersAndLeaves) {
  for (const int threads : {1, 4}) {
    std::atomic<int> done = 0;
    EXPECT_THROW(for_each_chunk(1'000'000, threads,
                                [&](int, std::uint64_t chunk) {
                                  if (chunk == 10) throw std::runtime_error("no");
                                  ++done;
                                }),
                 std::runtime_error);
    EXPECT_LT(done, 1'000'000);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
