#include "lockstep/data/image_dataset.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;
using config::Augment;

// Pixel values count up through all images; sample i has label i % 10.
LabelledImages counting_images(std::int64_t count, std::int64_t channels, std::int64_t side) {
  LabelledImages images;
  images.count = count;
  images.channels = channels;
  images.height = images.width = side;
  images.pixels.resize(static_cast<std::size_t>(count * images.pixels_per_image()));
  std::iota(images.pixels.begin(), images.pixels.end(), std::uint8_t{1});
  for (std::int64_t i = 0; i < count; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(i % 10));
  }
  return images;
}

Ids first_ids(std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

float at4(const at::Tensor& images, std::int64_t n, std::int64_t c, std::int64_t y,
          std::int64_t x) {
  return images[n][c][y][x].item<float>();
}

TEST(ImageDataset, NormalisesAsPyTorchDoesInFp32) {
  const ImageDataset dataset(counting_images(2, 1, 4), {.mean = 0.286, .std = 0.353});
  const Batch batch = dataset.collate(Ids{1}, 0);
  EXPECT_EQ(batch.input.sizes(), (at::IntArrayRef{1, 1, 4, 4}));
  for (std::int64_t k = 0; k < 16; ++k) {
    const auto pixel = static_cast<float>(17 + k);
    EXPECT_EQ(at4(batch.input, 0, 0, k / 4, k % 4), (pixel / 255.0F - 0.286F) / 0.353F);
  }
}

TEST(ImageDataset, KeepsTheOrderOfTheIdsAndCountsSamples) {
  const ImageDataset dataset(counting_images(12, 1, 2), {});
  const Batch batch = dataset.collate(Ids{11, 3, 3}, 0);
  EXPECT_EQ(batch.target[0].item<std::int64_t>(), 1);
  EXPECT_EQ(batch.target[1].item<std::int64_t>(), 3);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.weight, 3);
  EXPECT_TRUE(at::equal(batch.input[1], batch.input[2]));
  EXPECT_FALSE(dataset.counts_tokens());
}

TEST(ImageDataset, PlanesOfAFileBecomeChannelsLastMemory) {
  const ImageDataset dataset(counting_images(2, 3, 4), {});
  const Batch batch = dataset.collate(Ids{0, 1}, 0);
  EXPECT_TRUE(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t k = 0; k < 16; ++k) {
      const auto pixel = static_cast<float>(1 + 48 + c * 16 + k);
      EXPECT_EQ(at4(batch.input, 1, c, k / 4, k % 4), pixel / 255.0F);
    }
  }
}

TEST(ImageDataset, FlatFeaturesAreInTheOrderOfPyTorchsFlatten) {
  const ImageDataset image(counting_images(2, 3, 4), {.augment = Augment::flip_crop});
  const ImageDataset flat(counting_images(2, 3, 4), {.flat = true, .augment = Augment::flip_crop});
  for (const std::uint64_t key : {0, 5}) {
    const Batch features = flat.collate(Ids{1, 0}, key);
    EXPECT_EQ(features.input.sizes(), (at::IntArrayRef{2, 48}));
    const at::Tensor images = image.collate(Ids{1, 0}, key).input.contiguous();
    EXPECT_TRUE(at::equal(features.input, images.flatten(1))) << key;
  }
}

TEST(ImageDataset, AnEmptyPartIsABatchWithoutSamples) {
  const ImageDataset dataset(counting_images(2, 1, 2), {});
  const Batch batch = dataset.collate({}, 0);
  EXPECT_EQ(batch.samples, 0);
  EXPECT_EQ(batch.weight, 0);
  EXPECT_EQ(batch.input.size(0), 0);
}

TEST(ImageDataset, AugmentationDoesNotDependOnTheBatchItHappensIn) {
  const ImageDataset dataset(counting_images(40, 3, 8), {.augment = Augment::flip_crop});
  const Batch together = dataset.collate(first_ids(40), 77);
  for (std::int64_t id = 0; id < 40; ++id) {
    const Batch alone = dataset.collate(Ids{id}, 77);
    EXPECT_TRUE(at::equal(alone.input[0], together.input[id])) << id;
  }
}

TEST(ImageDataset, AugmentationChangesWithTheKeyAndIsOffWithKeyZero) {
  const ImageDataset augmented(counting_images(40, 1, 8), {.augment = Augment::flip_crop});
  const ImageDataset plain(counting_images(40, 1, 8), {});
  const Ids ids = first_ids(40);
  EXPECT_FALSE(at::equal(augmented.collate(ids, 1).input, augmented.collate(ids, 2).input));
  EXPECT_TRUE(at::equal(augmented.collate(ids, 1).input, augmented.collate(ids, 1).input));
  EXPECT_TRUE(at::equal(augmented.collate(ids, 0).input, plain.collate(ids, 0).input));
  EXPECT_TRUE(at::equal(plain.collate(ids, 1).input, plain.collate(ids, 0).input));
}

TEST(ImageDataset, FlipMirrorsAboutHalfOfTheImages) {
  const ImageDataset dataset(counting_images(200, 3, 5), {.augment = Augment::flip});
  const at::Tensor plain = dataset.collate(first_ids(200), 0).input;
  const at::Tensor shown = dataset.collate(first_ids(200), 9).input;
  int mirrored = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const bool same = at::equal(shown[i], plain[i]);
    const bool flipped = at::equal(shown[i], plain[i].flip(2));
    EXPECT_TRUE(same != flipped) << i;
    mirrored += flipped ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 100, 36);  // five standard deviations
}

// Every view must be a window of the image padded by 4 with pixels of value 0, perhaps mirrored.
TEST(ImageDataset, FlipCropShowsAWindowOfThePaddedImage) {
  const std::int64_t count = 60, side = 8;
  const ImageDataset dataset(counting_images(count, 1, side),
                             {.augment = Augment::flip_crop, .mean = 0.5, .std = 0.25});
  const at::Tensor plain = dataset.collate(first_ids(count), 0).input;
  const at::Tensor shown = dataset.collate(first_ids(count), 3).input;
  const at::Tensor padded = at::constant_pad_nd(plain, {4, 4, 4, 4}, -2.0);  // (0 - 0.5) / 0.25
  std::vector<int> windows(162, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    int matches = 0;
    for (std::int64_t dy = 0; dy <= 8; ++dy) {
      for (std::int64_t dx = 0; dx <= 8; ++dx) {
        const at::Tensor window = padded[i].narrow(1, dy, side).narrow(2, dx, side);
        const bool same = at::equal(shown[i], window);
        const bool flipped = at::equal(shown[i], window.flip(2));
        matches += same || flipped ? 1 : 0;
        if (same || flipped)
          ++windows[static_cast<std::size_t>((dy * 9 + dx) * 2 + (same ? 0 : 1))];
      }
    }
    EXPECT_EQ(matches, 1) << i;
  }
  EXPECT_GT(std::count_if(windows.begin(), windows.end(), [](int n) { return n > 0; }), 30);
}

TEST(ImageDataset, ImagesSmallerThanThePaddingStayInsideTheirMemory) {
  const ImageDataset dataset(counting_images(50, 2, 1), {.augment = Augment::flip_crop});
  const at::Tensor shown = dataset.collate(first_ids(50), 3).input;
  EXPECT_TRUE(shown.ge(0).all().item<bool>());
  EXPECT_TRUE(shown.le(1).all().item<bool>());
}

TEST(ImageDataset, AnIdOutsideIsABugNotAReadBeyondMemory) {
  const ImageDataset dataset(counting_images(2, 1, 2), {});
  EXPECT_THROW((void)dataset.collate(Ids{2}, 0), Bug);
  EXPECT_THROW((void)dataset.collate(Ids{-1}, 0), Bug);
}

}  // namespace
}  // namespace lockstep::data
