#include "lockstep/memory/category.h"

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cmath>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/eventually.h"

namespace lockstep::memory {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::int64_t current(Category category) {
  return usage().current_bytes[static_cast<std::size_t>(category)];
}

at::Tensor bytes_of(Category category, std::int64_t bytes) {
  const Scope scope(category);
  return at::ones({bytes}, at::kByte);
}

TEST(Memory, TensorsAreCountedUnderTheScopeTheyWereMadeIn) {
  install();
  install();
  const auto before = usage();
  auto weights = bytes_of(Category::parameters, 3 * kMiB);
  auto untagged = at::empty({kMiB}, at::kByte);
  EXPECT_EQ(current(Category::parameters) - before.current_bytes[0], 3 * kMiB);
  EXPECT_EQ(current(Category::buffers) - before.current_bytes[4], kMiB);
  weights = at::Tensor();
  EXPECT_EQ(current(Category::parameters), before.current_bytes[0]);
}

TEST(Memory, ALimitOfResidentMemoryRefusesTensorsBeyondIt) {
  install();
  release_cached();
  const auto kept = bytes_of(Category::parameters, 8 * kMiB);
  limit_resident(peak_needed_bytes() + 64 * kMiB);
  try {
    (void)bytes_of(Category::activations, 256 * kMiB);
    ADD_FAILURE() << "a tensor beyond the limit was made";
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
  }
  EXPECT_EQ(bytes_of(Category::activations, 16 * kMiB).numel(), 16 * kMiB);
  limit_resident(0);
  EXPECT_EQ(bytes_of(Category::activations, 256 * kMiB).numel(), 256 * kMiB);
}

TEST(Memory, PeaksAreForgotten) {
  install();
  forget_peaks();
  const std::int64_t before = peak_needed_bytes();
  { const auto large = bytes_of(Category::activations, 128 * kMiB); }
  EXPECT_GE(peak_needed_bytes(), before + 100 * kMiB);
  EXPECT_GE(peak_resident_bytes(), before + 100 * kMiB);
  forget_peaks();
  EXPECT_LT(peak_needed_bytes(), before + 64 * kMiB);
}

TEST(Memory, TheRecentPeakFollowsThePeakWithinMilliseconds) {
  install();
  forget_peaks();
  const std::int64_t before = recent_peak_resident_bytes();
  { const auto large = bytes_of(Category::activations, 128 * kMiB); }
  EXPECT_TRUE(
      test::eventually([&] { return recent_peak_resident_bytes() == peak_resident_bytes(); }));
  EXPECT_GE(recent_peak_resident_bytes(), before);
}

TEST(Memory, KnowsTheErrorsOfMemoryThatRanOut) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_out_of_memory(EnvironmentFault({kOutOfMemoryCode, "", "", ""})));
  EXPECT_FALSE(is_out_of_memory(EnvironmentFault({"LS-3001", "", "", ""})));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("the shapes differ")));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("could not create a primitive")));
  EXPECT_FALSE(is_out_of_memory(
      std::runtime_error("could not create a primitive descriptor for a convolution")));
  try {
    (void)c10::GetDefaultCPUAllocator()->allocate(std::size_t{1} << 60);
    ADD_FAILURE() << "the system gave an exabyte";
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
  }
}

TEST(Memory, ScopesNestAndEndWithTheirBlock) {
  install();
  const auto gradients = current(Category::gradients);
  const auto optimizer = current(Category::optimizer);
  const Scope outer(Category::gradients);
  const auto first = at::empty({100}, at::kByte);
  at::Tensor inside;
  {
    const Scope inner(Category::optimizer);
    inside = at::empty({200}, at::kByte);
  }
  const auto second = at::empty({400}, at::kByte);
  EXPECT_EQ(current(Category::gradients) - gradients, 500);
  EXPECT_EQ(current(Category::optimizer) - optimizer, 200);
}

TEST(Memory, AScopeIsOfItsThreadAndABlockOfWhoeverMadeIt) {
  install();
  const Scope scope(Category::activations);
  const auto activations = current(Category::activations);
  const auto communication = current(Category::communication);
  at::Tensor made_elsewhere;
  std::thread([&] {
    const Scope other(Category::communication);
    made_elsewhere = at::empty({5000}, at::kByte);
  }).join();
  EXPECT_EQ(current(Category::communication) - communication, 5000);
  EXPECT_EQ(current(Category::activations), activations);
  made_elsewhere = at::Tensor();
  EXPECT_EQ(current(Category::communication), communication);
}

TEST(Memory, CategoriesAddUpToTheGrowthOfResidentMemory) {
  install();
  const auto tagged = [](const Usage& u) {
    return std::accumulate(u.current_bytes.begin(), u.current_bytes.end() - 1, std::int64_t{0});
  };
  const auto resident = [&](const Usage& u) { return tagged(u) + u.current_bytes.back(); };
  release_cached();
  const auto before = usage();
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 12; ++i) {
    kept.push_back(bytes_of(Category::parameters, 5 * kMiB + 1000 * i));
    kept.push_back(bytes_of(Category::activations, 9 * kMiB + 12345 * i));
    kept.push_back(bytes_of(Category::optimizer, 300'000));
  }
  const auto after = usage();
  const auto growth = resident(after) - resident(before);
  const auto counted = tagged(after) - tagged(before);
  EXPECT_GT(counted, 165 * kMiB);
  EXPECT_LE(std::abs(growth - counted), std::max(counted / 20, 32 * kMiB));
  EXPECT_GE(peak_resident_bytes(), after.peak_total_bytes);
}

TEST(Memory, WhatBypassesTheAllocatorIsRuntime) {
  install();
  const auto before = usage();
  const std::vector<char> scratch(static_cast<std::size_t>(64 * kMiB), 'x');
  const auto after = usage();
  EXPECT_GE(after.current_bytes.back() - before.current_bytes.back(), 32 * kMiB);
  EXPECT_EQ(after.current_bytes[4], before.current_bytes[4]);
}

TEST(Memory, AGrownStorageMovesItsBytes) {
  install();
  const auto before = current(Category::gradients);
  const Scope scope(Category::gradients);
  auto tensor = at::arange(1000, at::kFloat);
  tensor.resize_({2'000'000});
  EXPECT_EQ(current(Category::gradients) - before, 8'000'000);
  EXPECT_EQ(tensor[999].item<float>(), 999.0F);
  const auto copy = tensor.clone();
  EXPECT_EQ(current(Category::gradients) - before, 16'000'000);
}

TEST(Memory, OperatorsIncludingOneDnnReturnAllTheyTook) {
  install();
  const auto before = usage();
  {
    const Scope scope(Category::activations);
    const auto images = at::rand({2, 8, 16, 16});
    const auto filters = at::rand({8, 8, 3, 3});
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto out = at::conv2d(images.to(dtype), filters.to(dtype), {}, 1, 1);
      EXPECT_EQ(out.size(3), 16);
      const auto square = at::rand({128, 128}).to(dtype);
      EXPECT_GT(at::mm(square, square).sum().item<float>(), 0.0F);
    }
  }
  EXPECT_EQ(current(Category::activations), before.current_bytes[3]);
}

TEST(Memory, TensorsAreAlignedAndEmptyOnesTakeNothing) {
  install();
  const auto before = usage();
  for (const std::int64_t count : {1, 17, 1000, 100'000, 3'000'000}) {
    const auto tensor = at::empty({count});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U);
  }
  const auto none = at::empty({0});
  EXPECT_EQ(current(Category::buffers), before.current_bytes[4]);
}

TEST(Memory, ATensorMadeBeforeInstallationMayEndAfterIt) {
  install();
  auto* const plain = c10::GetDefaultCPUAllocator();
  auto foreign = plain->allocate(5000);
  c10::GetAllocator(c10::kCPU)->raw_deleter()(foreign.release_context());
  SUCCEED() << "freed by the C library";
}

TEST(Memory, EveryCategoryHasAName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kCategoryCount; ++i) names.insert(name(static_cast<Category>(i)));
  EXPECT_EQ(names.size(), kCategoryCount);
  EXPECT_EQ(name(Category::activations), "activations");
}

}  // namespace
}  // namespace lockstep::memory
