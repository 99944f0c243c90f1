#include "lockstep/checkpoint/tools/copy_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/tools/memory_source_testing.h"

namespace lockstep::checkpoint {
namespace {

std::vector<std::byte> ramp(std::size_t bytes, std::size_t seed) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    values[i] = static_cast<std::byte>(i * 31 + i / 256 + seed);
  }
  return values;
}

/// Keeps what it gets.
class MemorySink final : public TensorSink {
 public:
  explicit MemorySink(std::vector<StoredTensor> order) : order_(std::move(order)) {}

  [[nodiscard]] std::span<const StoredTensor> order() const override { return order_; }
  void write(std::span<const std::byte> bytes) override {
    if (written.size() >= fail_at) throw std::runtime_error("disk full");
    EXPECT_FALSE(bytes.empty());
    most_bytes = std::max(most_bytes, bytes.size());
    written.insert(written.end(), bytes.begin(), bytes.end());
  }
  void commit() override { FAIL() << "that is for the caller to do"; }

  std::vector<std::byte> written;
  std::size_t fail_at = ~std::size_t{0};
  std::size_t most_bytes = 0;

 private:
  std::vector<StoredTensor> order_;
};

TEST(CopyTensors, EveryByteArrivesInTheOrderOfTheSink) {
  MemorySource source;
  const std::int64_t large = 20'000'003;  // more than is under way at once
  source.add({"small", "U8", {3}}, ramp(3, 1));
  source.add({"empty", "F32", {0, 2}}, {});
  source.add({"large", "U8", {large}}, ramp(static_cast<std::size_t>(large), 2));
  source.add({"left out", "U8", {5}}, ramp(5, 3));
  source.add({"number", "I64", {}}, ramp(8, 4));
  MemorySink sink({{"number", "I64", {}},
                   {"large", "U8", {large}},
                   {"empty", "F32", {0, 2}},
                   {"small", "U8", {3}}});
  copy_tensors(source, sink);
  std::vector<std::byte> expected;
  for (const auto& part : {ramp(8, 4), ramp(static_cast<std::size_t>(large), 2), ramp(3, 1)}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(sink.written, expected);
  EXPECT_LE(sink.most_bytes, kCopyBytes);
}

TEST(CopyTensors, ThousandsOfSmallTensorsArePacked) {
  MemorySource source;
  std::vector<StoredTensor> order;
  std::vector<std::byte> expected;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const StoredTensor tensor{"t" + std::to_string(i), "U8", {static_cast<std::int64_t>(i % 700)}};
    const auto bytes = ramp(i % 700, i);
    source.add(tensor, bytes);
    order.push_back(tensor);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  MemorySink sink(order);
  copy_tensors(source, sink);
  EXPECT_EQ(sink.written, expected);
}

TEST(CopyTensors, ATensorMayHaveAnotherNameInTheSink) {
  MemorySource source;
  source.add({"a", "U8", {2}}, ramp(2, 1));
  source.add({"b", "U8", {2}}, ramp(2, 2));
  MemorySink sink({{"a", "U8", {2}}, {"model.a", "U8", {2}}});
  copy_tensors(source, sink, {{{"model.a", "a"}, {"a", "b"}}, {}});
  auto expected = ramp(2, 2);
  const auto second = ramp(2, 1);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(sink.written, expected);
}

TEST(CopyTensors, ProgressRisesToTheEnd) {
  MemorySource source;
  const std::int64_t bytes = 10'000'000;
  source.add({"w", "U8", {bytes}}, ramp(static_cast<std::size_t>(bytes), 1));
  MemorySink sink({{"w", "U8", {bytes}}});
  std::vector<std::uint64_t> seen;
  copy_tensors(source, sink, {{}, [&](std::uint64_t done, std::uint64_t all) {
                                EXPECT_EQ(all, 10'000'000U);
                                seen.push_back(done);
                              }});
  EXPECT_GT(seen.size(), 2U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), 10'000'000U);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), seen.back()), 1);
}

TEST(CopyTensors, NothingToCopyIsDoneAtOnce) {
  const MemorySource source;
  MemorySink sink({});
  int calls = 0;
  copy_tensors(source, sink, {{}, [&](std::uint64_t done, std::uint64_t all) {
                                EXPECT_EQ(done + all, 0U);
                                ++calls;
                              }});
  EXPECT_EQ(calls, 1);
}

class Failing : public testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 30'000'000;
  void SetUp() override {
    source_.add({"w", "U8", {kBytes}}, std::vector<std::byte>(static_cast<std::size_t>(kBytes)));
  }
  MemorySource source_;
  MemorySink sink_{{{"w", "U8", {kBytes}}}};
};

TEST_F(Failing, ReadsEndTheCopyWithTheirFault) {
  source_.fail_at(0, 15'000'000);
  EXPECT_THROW(copy_tensors(source_, sink_), BadData);
  EXPECT_LE(sink_.written.size(), 15'000'000U);
}

TEST_F(Failing, WritesEndTheReadingToo) {
  sink_.fail_at = 10'000'000;
  EXPECT_THROW(copy_tensors(source_, sink_), std::runtime_error);
}

TEST_F(Failing, ProgressMayStopTheCopy) {
  EXPECT_THROW(
      copy_tensors(source_, sink_,
                   {{}, [](std::uint64_t, std::uint64_t) { throw std::logic_error("^C"); }}),
      std::logic_error);
  EXPECT_LT(sink_.written.size(), static_cast<std::size_t>(kBytes));
}

TEST(CopyTensors, TensorsThatDoNotFitAreABugOfTheCaller) {
  MemorySource source;
  source.add({"w", "U8", {2}}, ramp(2, 1));
  for (const StoredTensor& wanted :
       {StoredTensor{"x", "U8", {2}}, StoredTensor{"w", "I8", {2}}, StoredTensor{"w", "U8", {3}}}) {
    MemorySink sink({wanted});
    EXPECT_THROW(copy_tensors(source, sink), Bug);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
