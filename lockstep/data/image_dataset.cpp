// B samples, C planes, H W pixels, F features.
#include "lockstep/data/image_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kCropPad = 4;  // He et al., "Deep residual learning", 2016, section 4.2

// Turns planes [C,H,W] of every image into pixels [H,W,C], the memory order of channels-last.
void interleave(LabelledImages& images) {
  const std::int64_t plane = images.height * images.width;
  std::vector<std::uint8_t> copy(static_cast<std::size_t>(images.pixels_per_image()));
  for (std::int64_t i = 0; i < images.count; ++i) {
    std::uint8_t* const pixels = images.pixels.data() + i * images.pixels_per_image();
    std::copy_n(pixels, copy.size(), copy.begin());
    for (std::int64_t c = 0; c < images.channels; ++c) {
      const std::uint8_t* const from = copy.data() + c * plane;
      for (std::int64_t k = 0; k < plane; ++k) pixels[k * images.channels + c] = from[k];
    }
  }
}

}  // namespace

ImageDataset::ImageDataset(LabelledImages images, const ImageOptions& options)
    : images_(std::move(images)),
      options_(options),
      planes_(options.flat ? images_.channels : 1),
      interleaved_(options.flat ? 1 : images_.channels) {
  if (interleaved_ > 1) interleave(images_);
  const auto mean = static_cast<float>(options.mean);
  const auto std = static_cast<float>(options.std);
  for (int value = 0; value < 256; ++value) {
    normalised_[static_cast<std::size_t>(value)] =
        (static_cast<float>(value) / 255.0F - mean) / std;
  }
}

Batch ImageDataset::collate(std::span<const std::int64_t> ids, std::uint64_t augment_key) const {
  const auto B = static_cast<std::int64_t>(ids.size());
  const std::int64_t pixels_per_image = images_.pixels_per_image();
  Batch batch;
  batch.input =
      options_.flat
          ? at::empty({B, pixels_per_image}, at::kFloat)
          : at::empty({B, images_.channels, images_.height, images_.width},
                      at::TensorOptions(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  batch.target = at::empty({B}, at::kLong);
  batch.samples = batch.weight = B;
  float* out = batch.input.mutable_data_ptr<float>();
  auto* classes = batch.target.mutable_data_ptr<std::int64_t>();
  const bool augmented = augment_key != 0 && options_.augment != config::Augment::none;
  for (const std::int64_t id : ids) {
    LOCKSTEP_CHECK(id >= 0 && id < images_.count, "no such sample");
    const std::uint8_t* const pixels = images_.pixels.data() + id * pixels_per_image;
    if (augmented) {
      write_view(pixels, draw_view(augment_key, id), out);
    } else {
      write_whole(pixels, out);
    }
    out += pixels_per_image;
    *classes++ = images_.labels[static_cast<std::size_t>(id)];
  }
  return batch;
}

ImageDataset::View ImageDataset::draw_view(std::uint64_t augment_key, std::int64_t id) const {
  Rng rng(mix(augment_key, static_cast<std::uint64_t>(id)));
  View view;
  view.flip = rng.below(2) == 1;
  if (options_.augment == config::Augment::flip_crop) {
    view.dx = static_cast<std::int64_t>(rng.below(2 * kCropPad + 1)) - kCropPad;
    view.dy = static_cast<std::int64_t>(rng.below(2 * kCropPad + 1)) - kCropPad;
  }
  return view;
}

void ImageDataset::write_whole(const std::uint8_t* pixels, float* out) const {
  const std::int64_t count = images_.pixels_per_image();
  for (std::int64_t k = 0; k < count; ++k) out[k] = normalised_[pixels[k]];
}

// A row that lies outside of the image shows the padding: pixels of value 0.
void ImageDataset::write_view(const std::uint8_t* pixels, const View& view, float* out) const {
  const std::int64_t row = images_.width * interleaved_;
  for (std::int64_t plane = 0; plane < planes_; ++plane) {
    for (std::int64_t y = 0; y < images_.height; ++y) {
      const std::int64_t from = y + view.dy;
      if (from < 0 || from >= images_.height) {
        std::fill_n(out, row, normalised_[0]);
      } else {
        write_row(pixels + (plane * images_.height + from) * row, view, out);
      }
      out += row;
    }
  }
}

void ImageDataset::write_row(const std::uint8_t* row, const View& view, float* out) const {
  const std::int64_t width = images_.width;
  for (std::int64_t x = 0; x < width; ++x) {
    const std::int64_t from = (view.flip ? width - 1 - x : x) + view.dx;
    const bool inside = from >= 0 && from < width;
    for (std::int64_t c = 0; c < interleaved_; ++c) {
      *out++ = normalised_[inside ? row[from * interleaved_ + c] : 0];
    }
  }
}

}  // namespace lockstep::data
