// Images kept as bytes in memory; a batch is normalised and augmented while it is put together.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "lockstep/config/run_config.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/formats/labelled_images.h"

namespace lockstep::data {

struct ImageOptions {
  bool flat = false;  // features [B,F] in the order C,H,W, for an mlp; else [B,C,H,W] channels-last
  config::Augment augment = config::Augment::none;
  double mean = 0.0;  // (pixel / 255 - mean) / std, rounded in fp32 as PyTorch does
  double std = 1.0;
};

class ImageDataset : public Dataset {
 public:
  ImageDataset(LabelledImages images, const ImageOptions& options);

  [[nodiscard]] std::int64_t size() const override { return images_.count; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] std::int64_t resident_bytes() const override {
    return static_cast<std::int64_t>(images_.pixels.size() + images_.labels.size());
  }
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids,
                              std::uint64_t augment_key) const override;

 private:
  /// Which pixels of a sample are shown: shifted by (dx, dy), then mirrored.
  struct View {
    std::int64_t dx = 0;
    std::int64_t dy = 0;
    bool flip = false;
  };
  [[nodiscard]] View draw_view(std::uint64_t augment_key, std::int64_t id) const;
  void write_whole(const std::uint8_t* pixels, float* out) const;
  void write_view(const std::uint8_t* pixels, const View& view, float* out) const;
  void write_row(const std::uint8_t* row, const View& view, float* out) const;

  LabelledImages images_;  // pixels in output order: planes_ x height x width x interleaved_
  ImageOptions options_;
  std::int64_t planes_;                  // channels when flat, else 1
  std::int64_t interleaved_;             // 1 when flat, else channels
  std::array<float, 256> normalised_{};  // of each pixel value
};

}  // namespace lockstep::data
