#include "lockstep/data/text_dataset.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

TextDataset::Text counting_text(std::int64_t bytes) {
  auto text = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(bytes));
  std::iota(text->begin(), text->end(), std::uint8_t{0});
  return text;
}

Ids values(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

TEST(TextDataset, ASampleIsAWindowAndItsTargetsAreTheNextBytes) {
  const TextDataset dataset(counting_text(20), 0, 20, 4, 0);
  const Batch batch = dataset.collate(Ids{1, 0}, 0);
  EXPECT_EQ(batch.input.sizes(), (at::IntArrayRef{2, 4}));
  EXPECT_EQ(values(batch.input), (Ids{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(values(batch.target), (Ids{5, 6, 7, 8, 1, 2, 3, 4}));
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.weight, 8);
  EXPECT_TRUE(dataset.counts_tokens());
}

TEST(TextDataset, TheLastWindowNeedsOneByteMore) {
  const auto samples = [](std::int64_t bytes) {
    return TextDataset(counting_text(bytes), 0, bytes, 4, 0).size();
  };
  EXPECT_EQ(samples(0), 0);
  EXPECT_EQ(samples(4), 0);
  EXPECT_EQ(samples(5), 1);
  EXPECT_EQ(samples(8), 1);
  EXPECT_EQ(samples(9), 2);
}

TEST(TextDataset, APartReadsOnlyItsOwnBytes) {
  const TextDataset part(counting_text(100), 50, 9, 4, 0);
  EXPECT_EQ(part.size(), 2);
  EXPECT_EQ(values(part.collate(Ids{1}, 0).target), (Ids{55, 56, 57, 58}));
  EXPECT_THROW((void)part.collate(Ids{2}, 0), Bug);
  EXPECT_THROW(TextDataset(counting_text(10), 5, 6, 4, 0), Bug);
  EXPECT_THROW(TextDataset(counting_text(10), 0, 10, 0, 0), Bug);
}

TEST(TextDataset, BytesAboveOneHundredTwentySevenAreTokensUpTo255) {
  const TextDataset dataset(counting_text(256), 0, 256, 255, 0);
  EXPECT_EQ(values(dataset.collate(Ids{0}, 0).target).back(), 255);
}

TEST(TextDataset, KeepsOnlyTheFirstSamplesWhenToldSo) {
  EXPECT_EQ(TextDataset(counting_text(100), 0, 100, 4, 7).size(), 7);
  EXPECT_EQ(TextDataset(counting_text(9), 0, 9, 4, 7).size(), 2);
}

}  // namespace
}  // namespace lockstep::data
