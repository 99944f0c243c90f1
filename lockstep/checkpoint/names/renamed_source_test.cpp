#include "lockstep/checkpoint/names/renamed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lockstep/checkpoint/names/memory_source_testing.h"
#include "lockstep/checkpoint/names/slice.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;

std::vector<std::byte> joined(std::vector<std::byte> a, const std::vector<std::byte>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Views of slices that must be possible.
NamedView view_of(const std::string& name, std::span<const Slice> slices) {
  for (const Slice& slice : slices) EXPECT_EQ(slice.fault, "");
  Stack made = stack(slices);
  EXPECT_EQ(made.fault, "");
  made.view.tensor.name = name;
  return made.view;
}

class RenamedSourceTest : public testing::Test {
 protected:
  RenamedSourceTest() {
    source->add("a", {5, 7}).add("b", {3, 7}).add("c", {7, 2}).add("n", {}, "I64");
    plain = read_all(*source);
  }
  [[nodiscard]] Slice all(std::size_t index, Layout layout = Layout::same) const {
    return slice_all(*source, index, layout);
  }
  std::unique_ptr<MemorySource> source = std::make_unique<MemorySource>();
  std::map<std::string, WholeTensor> plain;
};

TEST_F(RenamedSourceTest, TensorsOfOneCheckpointAreStackedCutAndTurned) {
  Renaming renaming;
  renaming.views = {
      view_of("stacked", std::vector<Slice>{all(0), all(1), all(2, Layout::turned)}),
      view_of("cut", std::vector<Slice>{slice_rows(*source, 0, 1, 3, Layout::same)}),
      view_of("cut and turned", std::vector<Slice>{slice_rows(*source, 0, 1, 3, Layout::turned)}),
      view_of("scalar", std::vector<Slice>{all(3)}),
  };
  for (const std::size_t chunk : {1U, 3U, 4U, 13U, 28U, 1000U}) {
    auto copy = std::make_unique<MemorySource>();
    copy->add("a", {5, 7}).add("b", {3, 7}).add("c", {7, 2}).add("n", {}, "I64");
    const RenamedSource renamed(std::move(copy), renaming);
    EXPECT_THAT(lines_of(renamed), ElementsAre("stacked F32 [10, 7]", "cut F32 [3, 7]",
                                               "cut and turned F32 [7, 3]", "scalar I64 []"));
    const auto read = read_all(renamed, chunk);
    EXPECT_EQ(read.at("stacked").bytes,
              joined(joined(plain["a"].bytes, plain["b"].bytes), turned_over(plain["c"])));
    const std::vector<std::byte> rows(plain["a"].bytes.begin() + 28,
                                      plain["a"].bytes.begin() + 112);
    EXPECT_EQ(read.at("cut").bytes, rows);
    EXPECT_EQ(read.at("cut and turned").bytes, turned_over({"F32", {3, 7}, rows}));
    EXPECT_EQ(read.at("scalar").bytes, plain["n"].bytes);
  }
}

TEST_F(RenamedSourceTest, AMatrixIsReadOnceHoweverItsTurnedFormIsRead) {
  const MemorySource& inner = *source;
  Renaming renaming;
  renaming.views = {view_of("a", std::vector<Slice>{all(0, Layout::turned)}),
                    view_of("b", std::vector<Slice>{all(1, Layout::turned)})};
  const std::uint64_t before = inner.bytes_read();
  const RenamedSource renamed(std::move(source), renaming);
  const auto read = read_all(renamed, 5);
  EXPECT_EQ(read.at("a").bytes, turned_over(plain["a"]));
  EXPECT_EQ(read.at("b").bytes, turned_over(plain["b"]));
  EXPECT_EQ(inner.bytes_read() - before, plain["a"].bytes.size() + plain["b"].bytes.size());
}

TEST_F(RenamedSourceTest, RangesInAnyOrderGiveTheSameBytes) {
  Renaming renaming;
  renaming.views = {view_of("a", std::vector<Slice>{all(0, Layout::turned)}),
                    view_of("b", std::vector<Slice>{all(1, Layout::turned)})};
  const RenamedSource renamed(std::move(source), renaming);
  const auto turned = turned_over(plain["a"]);
  std::vector<std::byte> other(4);
  for (std::size_t end = turned.size(); end > 0; end -= 10) {
    std::vector<std::byte> bytes(10);
    renamed.read(0, end - 10, bytes);
    renamed.read(1, 8, other);  // takes the place of the first
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), turned.begin() + end - 10)) << end;
  }
}

TEST_F(RenamedSourceTest, ThreadsReadAtTheSameTime) {
  Renaming renaming;
  renaming.views = {view_of("a", std::vector<Slice>{all(0, Layout::turned)}),
                    view_of("b", std::vector<Slice>{all(1, Layout::turned)}),
                    view_of("c", std::vector<Slice>{all(2)})};
  const RenamedSource renamed(std::move(source), renaming);
  const auto want = read_all(renamed);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t chunk = 3; chunk < 9; ++chunk) {
    threads.emplace_back([&renamed, &want, &wrong, chunk] {
      for (int i = 0; i < 50; ++i) wrong += read_all(renamed, chunk) == want ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(RenamedSourceTest, LargeMatricesOfEveryElementSizeAreTurned) {
  for (const auto& [dtype, element] :
       std::map<std::string, std::size_t>{{"U8", 1}, {"BF16", 2}, {"F32", 4}, {"F64", 8}}) {
    for (const Shape& shape :
         {Shape{1, 3000}, Shape{3000, 1}, Shape{700, 301}, Shape{17, 70'001}}) {
      auto one = std::make_unique<MemorySource>();
      one->add("m", shape, dtype);
      const auto bytes = read_all(*one).at("m").bytes;
      Renaming renaming;
      renaming.views = {view_of("t", std::vector<Slice>{slice_all(*one, 0, Layout::turned)})};
      const RenamedSource renamed(std::move(one), renaming);
      const auto turned = read_all(renamed).at("t").bytes;
      const auto rows = static_cast<std::size_t>(shape[0]);
      const auto columns = static_cast<std::size_t>(shape[1]);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < rows * columns; ++i) {
        const std::size_t from = (i % rows * columns + i / rows) * element;
        wrong += std::memcmp(turned.data() + i * element, bytes.data() + from, element) != 0;
      }
      EXPECT_EQ(wrong, 0U) << dtype << " " << to_text(shape);
    }
  }
}

TEST_F(RenamedSourceTest, EmptyTensorsHaveNothingToRead) {
  auto empty = std::make_unique<MemorySource>();
  empty->add("e", {0, std::int64_t{1} << 40}, "F64").add("f", {6, 0});
  Renaming renaming;
  renaming.views = {view_of("e", std::vector<Slice>{slice_all(*empty, 0, Layout::turned)}),
                    view_of("f", std::vector<Slice>{slice_rows(*empty, 1, 2, 3, Layout::turned)})};
  const RenamedSource renamed(std::move(empty), renaming);
  EXPECT_THAT(lines_of(renamed), ElementsAre("e F64 [1099511627776, 0]", "f F32 [0, 3]"));
  renamed.read(0, 0, {});
  renamed.read(1, 0, {});
}

TEST_F(RenamedSourceTest, ATensorWithoutPartsIsZero) {
  Renaming renaming;
  renaming.views = {{{"n", "I64", {2}}, {}}};
  const RenamedSource renamed(std::move(source), renaming);
  EXPECT_EQ(read_all(renamed, 3).at("n").bytes, std::vector<std::byte>(16, std::byte{0}));
}

TEST_F(RenamedSourceTest, WhatTheSourceSaysOfItselfStays) {
  Renaming renaming;
  renaming.left_out = {{"mask", "has one form"}};
  renaming.notes = {"a note"};
  const RenamedSource renamed(std::move(source), renaming);
  EXPECT_EQ(renamed.format(), "memory");
  EXPECT_EQ(renamed.facts().at("step"), "7");
  ASSERT_EQ(renamed.skipped().size(), 2U);
  EXPECT_EQ(renamed.skipped()[0].name, "rng_state");
  EXPECT_EQ(renamed.skipped()[1].name, "mask");
  EXPECT_EQ(renamed.notes()[0], "a note");
}

TEST_F(RenamedSourceTest, PartsThatDoNotFitAreOurOwnFault) {
  const auto with = [](Shape shape, Part part) {
    auto one = std::make_unique<MemorySource>();
    one->add("m", {4, 2});
    Renaming renaming;
    renaming.views = {{{"x", "F32", std::move(shape)}, {part}}};
    const RenamedSource renamed(std::move(one), renaming);
  };
  EXPECT_NO_THROW(with({4, 2}, {0, 0, 32}));
  EXPECT_THROW(with({4, 2}, {1, 0, 32}), Bug);            // no such tensor
  EXPECT_THROW(with({4, 2}, {0, 4, 32}), Bug);            // beyond its end
  EXPECT_THROW(with({4, 2}, {0, 1ULL << 63U, 32}), Bug);  // likewise
  EXPECT_THROW(with({4, 2}, {0, 0, 28}), Bug);            // too little for the tensor
  EXPECT_THROW(with({4, 2}, {0, 0, 32, 3}), Bug);         // rows of three numbers do not fit
  EXPECT_THROW(with({4, 2}, {0, 0, 32, -1}), Bug);
}

TEST(Slice, WhatCannotBeTurnedOrCutSaysWhy) {
  MemorySource source;
  source.add("v", {4}).add("f4", {4, 3}, "F4").add("n", {}).add("cube", {2, 2, 2});
  EXPECT_EQ(slice_all(source, 0, Layout::turned).fault, "F32 [4] is no matrix");
  EXPECT_EQ(slice_all(source, 2, Layout::turned).fault, "F32 [] is no matrix");
  EXPECT_EQ(slice_all(source, 3, Layout::turned).fault, "F32 [2, 2, 2] is no matrix");
  EXPECT_EQ(slice_all(source, 1, Layout::turned).fault, "F4 has no whole bytes to turn over");
  EXPECT_EQ(slice_rows(source, 1, 1, 2, Layout::same).fault,
            "F4 [4, 3] cannot be cut between whole bytes");
  EXPECT_EQ(slice_rows(source, 1, 2, 2, Layout::same).fault, "");
}

TEST(Slice, WhatCannotStandBelowAnotherSaysWhy) {
  const auto slice = [](const char* dtype, Shape shape) {
    return Slice{dtype, std::move(shape), {}, {}};
  };
  const auto fault = [](const Slice& a, const Slice& b) {
    return stack(std::vector<Slice>{a, b}).fault;
  };
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  EXPECT_EQ(fault(slice("F32", {2, 3}), slice("F32", {5, 3})), "");
  EXPECT_EQ(fault(slice("F32", {2, 3}), slice("F32", {2, 4})),
            "F32 [2, 4] cannot stand below F32 [2, 3]");
  EXPECT_NE(fault(slice("F32", {2, 3}), slice("F16", {2, 3})), "");
  EXPECT_NE(fault(slice("F32", {2, 3}), slice("F32", {2})), "");
  EXPECT_NE(fault(slice("F32", {}), slice("F32", {})), "");
  EXPECT_NE(fault(slice("F32", {kHalf, 0}), slice("F32", {kHalf, 0})), "");  // rows overflow
  EXPECT_NE(stack(std::vector<Slice>{slice("F64", {1LL << 61, 0})}).fault, "");
  EXPECT_NE(fault(slice("F32", {1LL << 57, 2}), slice("F32", {kHalf - 1, 2})), "");
}

}  // namespace
}  // namespace lockstep::checkpoint
