#include "lockstep/data/loader.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/support/eventually.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

// A batch is its ids and its augment key, so tests see what was asked for.
class EchoDataset : public Dataset {
 public:
  explicit EchoDataset(std::int64_t samples) : samples_(samples) {}

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids,
                              std::uint64_t augment_key) const override {
    ++collated;
    if (std::find(ids.begin(), ids.end(), fails_at) != ids.end()) {
      throw std::runtime_error("sample on fire");
    }
    Batch batch;
    batch.samples = batch.weight = static_cast<std::int64_t>(ids.size());
    batch.input = at::empty({batch.samples}, at::kLong);
    std::copy(ids.begin(), ids.end(), batch.input.mutable_data_ptr<std::int64_t>());
    batch.target = at::empty({numbers_more + 1}, at::kLong);
    *batch.target.mutable_data_ptr<std::int64_t>() = static_cast<std::int64_t>(augment_key);
    return batch;
  }

  std::int64_t fails_at = -1;
  std::int64_t numbers_more = 0;  // of a batch, to make it large
  mutable std::atomic<int> collated{0};

 private:
  std::int64_t samples_;
};

Ids ids_of(const Batch& batch) {
  const auto* ids = batch.input.const_data_ptr<std::int64_t>();
  return {ids, ids + batch.input.numel()};
}

// One step as plain numbers, comparable.
struct Seen {
  std::vector<Ids> leaves;
  std::int64_t global_samples = 0;
  Position after;
  std::uint64_t key = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen see(Loader& loader) {
  const StepData step = loader.next();
  Seen seen{{}, step.global_samples, step.after, 0};
  for (const Batch& batch : step.micro_batches) {
    seen.leaves.push_back(ids_of(batch));
    seen.key = static_cast<std::uint64_t>(*batch.target.const_data_ptr<std::int64_t>());
  }
  return seen;
}

std::vector<Seen> see_steps(Loader& loader, int steps) {
  std::vector<Seen> seen;
  for (int i = 0; i < steps; ++i) seen.push_back(see(loader));
  return seen;
}

const LeafRange kMiddleLeaves{.first = 1, .count = 2, .leaves = 4};

TEST(Loader, GivesTheSameStepsWithZeroOneTwoAndFiveWorkers) {
  const EchoDataset dataset(37);
  const Sampler sampler(37, 9, 8);
  Loader alone(dataset, sampler, kMiddleLeaves, {.seed = 9, .workers = 0, .prefetch = 2});
  const std::vector<Seen> expected = see_steps(alone, 17);  // three epochs and a bit
  for (const int workers : {1, 2, 5}) {
    Loader loader(dataset, sampler, kMiddleLeaves, {.seed = 9, .workers = workers, .prefetch = 4});
    EXPECT_EQ(see_steps(loader, 17), expected) << workers;
  }
}

TEST(Loader, HandsOutTheLeavesOfItsRangeAndWhereTrainingStandsThen) {
  const EchoDataset dataset(10);
  const Sampler sampler(10, 2, 8);
  Loader loader(dataset, sampler, kMiddleLeaves, {.seed = 2});
  const Seen first = see(loader);
  const Ids ids = sampler.step_ids({});
  EXPECT_EQ(first.leaves, (std::vector<Ids>{{ids[2], ids[3]}, {ids[4], ids[5]}}));
  EXPECT_EQ(first.global_samples, 8);
  EXPECT_EQ(first.after, (Position{0, 8}));
  EXPECT_EQ(first.key, augment_key(2, 0));
  const Seen tail = see(loader);  // two samples for four leaves
  EXPECT_EQ(tail.global_samples, 2);
  EXPECT_EQ(tail.leaves[0].size(), 1U);
  EXPECT_TRUE(tail.leaves[1].empty());
  EXPECT_EQ(tail.after, (Position{1, 0}));
}

TEST(Loader, SeekingToAnyPositionGivesTheSameContinuation) {
  const EchoDataset dataset(22);
  const Sampler sampler(22, 4, 8);
  for (const int workers : {0, 2}) {
    Loader straight(dataset, sampler, kMiddleLeaves, {.seed = 4, .workers = workers});
    const std::vector<Seen> all = see_steps(straight, 9);
    Loader jumping(dataset, sampler, kMiddleLeaves, {.seed = 4, .workers = workers});
    for (const std::size_t step : {7U, 2U, 0U, 5U, 3U}) {
      if (step % 2 == 1) (void)jumping.next();  // batches made ahead must not survive the jump
      jumping.seek(step == 0 ? Position{} : all[step - 1].after);
      EXPECT_EQ(see(jumping), all[step]) << step;
      EXPECT_EQ(see(jumping), all[step + 1]) << step;
    }
  }
}

TEST(Loader, ResumesAtThePositionThatAStepReported) {
  const EchoDataset dataset(50);
  const Sampler sampler(50, 4, 8);
  Loader loader(dataset, sampler, {}, {.seed = 4});
  const Position after_two = see_steps(loader, 2).back().after;
  const Seen third = see(loader);
  Loader resumed(dataset, sampler, {}, {.seed = 4});
  resumed.seek(after_two);
  EXPECT_EQ(see(resumed), third);
}

TEST(Loader, WhatAWorkerThrowsComesOutOfNextAtItsStep) {
  for (const int workers : {0, 1, 2}) {
    EchoDataset dataset(32);
    const Sampler sampler(32, 6, 8);
    dataset.fails_at = sampler.step_ids({0, 16})[3];
    Loader loader(dataset, sampler, {}, {.seed = 6, .workers = workers, .prefetch = 4});
    EXPECT_EQ(see_steps(loader, 2).size(), 2U);
    EXPECT_THROW((void)loader.next(), std::runtime_error);
    EXPECT_EQ(see(loader).after, (Position{1, 0}));  // the steps after it are still there
  }
}

TEST(Loader, MakesNoMoreLargeStepsAheadThanPrefetchSays) {
  EchoDataset dataset(1000);
  dataset.numbers_more = std::int64_t{1} << 17;  // 1 MiB
  Loader loader(dataset, Sampler(1000, 1, 10), {}, {.seed = 1, .workers = 2, .prefetch = 3});
  for (int waited_ms = 0; dataset.collated < 3 && waited_ms < 5000; ++waited_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset.collated, 3);
  (void)loader.next();
  EXPECT_LE(dataset.collated, 4);
}

TEST(Loader, MakesSmallStepsSeveralAtATime) {
  const EchoDataset dataset(1000);
  Loader loader(dataset, Sampler(1000, 1, 10), {}, {.seed = 1, .workers = 2, .prefetch = 3});
  EXPECT_TRUE(test::eventually([&] { return dataset.collated == 16; }));
  for (int i = 0; i < 7; ++i) (void)loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset.collated, 16) << "half of them are still there";
  (void)loader.next();
  EXPECT_TRUE(test::eventually([&] { return dataset.collated == 24; }));
}

// Blocks in the first leaf it is asked for until it is released; each leaf takes a millisecond.
class BlockingDataset : public EchoDataset {
 public:
  using EchoDataset::EchoDataset;
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids, std::uint64_t key) const override {
    entered = true;
    std::unique_lock lock(mutex_);
    released_.wait_for(lock, std::chrono::seconds(10), [this] { return free_; });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return EchoDataset::collate(ids, key);
  }
  void release() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    released_.notify_all();
  }
  mutable std::atomic<bool> entered{false};

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable released_;
  bool free_ = false;
};

TEST(Loader, EndsAfterTheMicroBatchAtHandWhenItIsDestroyed) {
  BlockingDataset dataset(1000);
  std::thread releaser;
  {
    Loader loader(dataset, Sampler(1000, 1, 100), {.first = 0, .count = 10000, .leaves = 10000},
                  {});
    while (!dataset.entered) std::this_thread::yield();
    releaser = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the destructor waits by then
      dataset.release();
    });
  }
  releaser.join();
  EXPECT_LT(dataset.collated, 10000);  // all of them would take ten seconds
}

TEST(Loader, AStepThatWasDroppedWhileBeingMadeIsNotHandedOut) {
  BlockingDataset dataset(100);
  const Sampler sampler(100, 1, 10);
  Loader loader(dataset, sampler, {}, {.seed = 1});
  while (!dataset.entered) std::this_thread::yield();
  loader.seek({3, 50});
  dataset.release();
  EXPECT_EQ(see(loader).after, (Position{3, 60}));
}

TEST(Loader, GoesOnWithOtherLeavesFromWhereItIsTold) {
  const EchoDataset dataset(100);
  const Sampler sampler(100, 1, 16);
  for (const int workers : {0, 2}) {
    Loader loader(dataset, sampler, {.first = 1, .count = 1, .leaves = 2},
                  {.seed = 1, .workers = workers});
    const StepData coarse = loader.next();
    ASSERT_EQ(coarse.micro_batches.size(), 1U);
    loader.seek({}, {.first = 2, .count = 2, .leaves = 4});
    const StepData fine = loader.next();
    ASSERT_EQ(fine.micro_batches.size(), 2U);
    EXPECT_EQ(fine.micro_batches[0].samples, 4);
    Ids both = ids_of(fine.micro_batches[0]);
    const Ids second = ids_of(fine.micro_batches[1]);
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_EQ(both, ids_of(coarse.micro_batches[0]));
    EXPECT_EQ(fine.after, coarse.after);
    loader.seek(fine.after);
    EXPECT_EQ(loader.next().micro_batches.size(), 2U);
  }
}

TEST(Loader, RefusesLeavesOutsideOfTheStep) {
  const EchoDataset dataset(10);
  const LeafRange wrong{.first = 3, .count = 2, .leaves = 4};
  EXPECT_THROW(Loader(dataset, Sampler(10, 1, 4), wrong, {}), Bug);
}

}  // namespace
}  // namespace lockstep::data
