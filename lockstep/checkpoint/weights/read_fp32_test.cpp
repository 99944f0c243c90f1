#include "lockstep/checkpoint/weights/read_fp32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/box_runs.h"
#include "lockstep/checkpoint/names/memory_source_testing.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kNumbers = 251;  // a prime, so that no two rows are alike

template <typename Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  return count;
}

float number(std::size_t index) { return static_cast<float>(index % kNumbers); }

/// Element i is number(i): small whole numbers, which 16 bits hold too.
void add_counting(MemorySource& source, const std::string& dtype, const Shape& shape) {
  const std::size_t count = count_of(shape);
  std::vector<std::byte> bytes;
  if (dtype == "F64") {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = number(i);
    bytes = bytes_of(values);
  } else {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = number(i);
    bytes = bytes_of(values);
  }
  if (dtype == "BF16") {  // the upper half of each
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&bytes[i * 2], &bytes[i * 4 + 2], 2);
    bytes.resize(count * 2);
  }
  source.add({"t" + std::to_string(source.tensors().size()), dtype, shape}, std::move(bytes));
}

NamedView view_of(const TensorSource& source, std::size_t index) {
  const StoredTensor& tensor = source.tensors()[index];
  return {tensor, {{index, 0, tensor.bytes()}}};
}

NamedView turned_view(const TensorSource& source, std::size_t index) {
  NamedView view = view_of(source, index);
  view.parts[0].turned_columns = view.tensor.shape[1];
  std::swap(view.tensor.shape[0], view.tensor.shape[1]);
  return view;
}

std::vector<float> read(const TensorSource& source, const NamedView& view, const Box& box) {
  std::vector<float> out(count_of(box.shape), -1);
  read_fp32(source, view, box, out);
  return out;
}

std::vector<float> read(const TensorSource& source, const NamedView& view) {
  std::vector<float> out(count_of(view.tensor.shape), -1);
  read_fp32(source, view, out);
  return out;
}

/// The box of what a whole read gives.
std::vector<float> cut(const std::vector<float>& whole, const Shape& shape, const Box& box) {
  std::vector<float> out;
  const BoxRuns runs(shape, box);
  for (std::uint64_t run = 0; run < runs.count(); ++run) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(runs.start(run));
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(runs.elements()));
  }
  return out;
}

TEST(ReadFp32, EveryTypeBecomesTheSameNumbers) {
  for (const char* dtype : {"F32", "BF16", "F64"}) {
    MemorySource source;
    add_counting(source, dtype, {7, 5});
    const auto values = read(source, view_of(source, 0));
    const auto turned = read(source, turned_view(source, 0));
    for (std::size_t i = 0; i < 35; ++i) {
      EXPECT_EQ(values[i], number(i)) << dtype;
      EXPECT_EQ(turned[i % 5 * 7 + i / 5], number(i)) << dtype;
    }
  }
}

TEST(ReadFp32, NarrowTypesAndTheirExtremesAreExact) {
  MemorySource source;
  source.add({"half", "F16", {4}}, bytes_of<std::uint16_t>({0x3c00, 0x7c00, 0xfc00, 0x0001}));
  source.add({"e4m3", "F8_E4M3", {3}}, bytes_of<std::uint8_t>({0x38, 0x7e, 0x7f}));
  source.add({"e5m2", "F8_E5M2", {3}}, bytes_of<std::uint8_t>({0x3c, 0x7c, 0xbc}));
  source.add({"wide", "F64", {3}}, bytes_of<double>({1e300, -0.1, 1e-320}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(read(source, view_of(source, 0)),
            (std::vector<float>{1, infinity, -infinity, 0x1p-24F}));
  const auto e4m3 = read(source, view_of(source, 1));
  EXPECT_EQ(e4m3[0], 1);
  EXPECT_EQ(e4m3[1], 448);
  EXPECT_TRUE(std::isnan(e4m3[2]));
  EXPECT_EQ(read(source, view_of(source, 2)), (std::vector<float>{1, infinity, -1}));
  EXPECT_EQ(read(source, view_of(source, 3)), (std::vector<float>{infinity, -0.1F, 0}));
}

TEST(ReadFp32, ABoxIsThatPartOfTheWhole) {
  for (const char* dtype : {"F32", "BF16", "F64"}) {
    MemorySource source;
    add_counting(source, dtype, {6, 5, 4});
    const NamedView view = view_of(source, 0);
    const auto whole = read(source, view);
    for (const Box& box :
         {Box{{0, 0, 0}, {6, 5, 4}}, Box{{2, 1, 1}, {3, 2, 2}}, Box{{5, 4, 3}, {1, 1, 1}},
          Box{{1, 0, 0}, {4, 5, 4}}, Box{{0, 2, 0}, {6, 1, 4}}, Box{{0, 0, 1}, {6, 5, 0}}}) {
      EXPECT_EQ(read(source, view, box), cut(whole, view.tensor.shape, box)) << dtype;
    }
  }
}

TEST(ReadFp32, ABoxOfStackedPartsCrossesThem) {
  MemorySource source;
  add_counting(source, "BF16", {3, 4});
  add_counting(source, "BF16", {1, 4});
  add_counting(source, "BF16", {4, 4});
  NamedView view{{"all", "BF16", {8, 4}}, {{0, 0, 24}, {1, 0, 8}, {2, 0, 32}}};
  const auto whole = read(source, view);
  EXPECT_EQ(whole[12], 0);
  EXPECT_EQ(whole[16], 0);
  for (std::int64_t first = 0; first < 8; ++first) {
    for (std::int64_t rows = 0; first + rows <= 8; ++rows) {
      const Box box{{first, 1}, {rows, 2}};
      EXPECT_EQ(read(source, view, box), cut(whole, view.tensor.shape, box));
    }
  }
}

TEST(ReadFp32, LargeTensorsAreReadInWindows) {
  for (const char* dtype : {"F32", "BF16", "F64"}) {
    MemorySource source;
    add_counting(source, dtype, {3, 1'000'003});
    const NamedView view = view_of(source, 0);
    const auto values = read(source, view);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] == number(i) ? 0U : 1U;
    EXPECT_EQ(wrong, 0U) << dtype;
    const Box box{{0, 500'000}, {3, 7}};
    EXPECT_EQ(read(source, view, box), cut(values, view.tensor.shape, box)) << dtype;
  }
}

TEST(ReadFp32, LargeMatricesAreTurnedInTiles) {
  MemorySource source;
  add_counting(source, "F32", {131, 16'390});  // more than a tile either way
  add_counting(source, "BF16", {16'390, 131});
  for (const std::size_t index : {0U, 1U}) {
    const NamedView view = turned_view(source, index);
    const auto rows = static_cast<std::size_t>(view.tensor.shape[0]);
    const auto columns = static_cast<std::size_t>(view.tensor.shape[1]);
    const auto turned = read(source, view);
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        wrong += turned[r * columns + c] == number(c * rows + r) ? 0U : 1U;
      }
    }
    EXPECT_EQ(wrong, 0U);
    const Box box{{70, 50}, {60, 80}};
    EXPECT_EQ(read(source, view, box), cut(turned, view.tensor.shape, box));
  }
}

TEST(ReadFp32, ANarrowBoxReadsLittleMoreThanItself) {
  MemorySource source;
  add_counting(source, "F32", {8, 100'000});
  (void)read(source, view_of(source, 0), {{0, 10}, {8, 5}});
  EXPECT_EQ(source.bytes_read(), 8U * 5 * 4);
  (void)read(source, turned_view(source, 0), {{10, 0}, {5, 8}});
  EXPECT_EQ(source.bytes_read(), 2U * 8 * 5 * 4);
}

TEST(ReadFp32, ScalarsAndEmptyTensorsAreRead) {
  MemorySource source;
  source.add({"scalar", "F32", {}}, bytes_of<float>({2.5F}));
  add_counting(source, "F32", {0});
  add_counting(source, "F32", {3, 0});
  EXPECT_EQ(read(source, view_of(source, 0)), std::vector<float>{2.5F});
  EXPECT_TRUE(read(source, view_of(source, 1)).empty());
  EXPECT_TRUE(read(source, view_of(source, 2)).empty());
}

TEST(ReadFp32, ABoxOutsideIsABug) {
  MemorySource source;
  add_counting(source, "F32", {2, 3});
  const NamedView view = view_of(source, 0);
  std::vector<float> out(6);
  const std::span<float> all(out);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(read_fp32(source, view, {{1, 0}, {2, 3}}, all), Bug);
  EXPECT_THROW(read_fp32(source, view, {{most, 0}, {2, 3}}, all), Bug);
  EXPECT_THROW(read_fp32(source, view, {{-1, 0}, {2, 3}}, all), Bug);
  EXPECT_THROW(read_fp32(source, view, {{0}, {6}}, all), Bug);
  EXPECT_THROW(read_fp32(source, view, {{0, 0}, {2, 2}}, all), Bug);
}

}  // namespace
}  // namespace lockstep::checkpoint
