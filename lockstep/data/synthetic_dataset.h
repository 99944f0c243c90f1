// Made-up data that a model can learn, for benchmarks and tests: a sample is a function of its id.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Training and evaluation samples of one problem differ in their draws, not in what they teach.
enum class SyntheticPart : std::uint64_t { train = 1, eval = 2 };

/// Features or images: the centre of a class plus noise of variance 1. The centres of images are
/// waves over the plane (as convolutions can see), those of features are normal draws.
class SyntheticClasses : public Dataset {
 public:
  /// \param shape of a sample: {F}, or {C,H,W}.
  SyntheticClasses(std::vector<std::int64_t> shape, std::int64_t classes, std::int64_t samples,
                   SyntheticPart part);

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids,
                              std::uint64_t augment_key) const override;

 private:
  std::vector<std::int64_t> shape_;
  std::int64_t elements_;  // of a sample
  std::int64_t classes_;
  std::int64_t samples_;
  SyntheticPart part_;
  std::vector<float> centres_;  // [classes, elements], images in channels-last order
  std::vector<float> noise_;    // a sample adds the stretch that begins where its id says
};

/// Tokens: each is, seven times of eight, the fixed successor of the one before, else a random one.
class SyntheticTokens : public Dataset {
 public:
  SyntheticTokens(std::int64_t seq_len, std::int64_t vocab_size, std::int64_t samples,
                  SyntheticPart part);

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] bool counts_tokens() const override { return true; }
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids,
                              std::uint64_t augment_key) const override;

 private:
  std::int64_t seq_len_;
  std::int64_t samples_;
  SyntheticPart part_;
  std::vector<std::int64_t> successors_;  // [vocabulary]
};

}  // namespace lockstep::data
