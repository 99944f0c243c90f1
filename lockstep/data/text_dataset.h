// Text as tokens: one byte is one token (vocabulary 256), a sample is a window of seq_len tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// A batch of B samples of T tokens whose input and target [B,T] are still to be filled.
[[nodiscard]] Batch empty_token_batch(std::int64_t samples, std::int64_t seq_len);

/// Sample i is the bytes [i*T, i*T + T] of its part: T inputs and, one further, T targets. Windows
/// do not overlap but for that one byte; the tail that fills no window is left out.
class TextDataset : public Dataset {
 public:
  using Text = std::shared_ptr<const std::vector<std::uint8_t>>;

  /// Uses bytes [first, first + count) of `text`, which train and eval may share.
  /// \param max_samples only the first ones; 0 = all.
  TextDataset(Text text, std::int64_t first, std::int64_t count, std::int64_t seq_len,
              std::int64_t max_samples);

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] bool counts_tokens() const override { return true; }
  [[nodiscard]] std::int64_t resident_bytes() const override { return bytes_; }
  [[nodiscard]] Batch collate(std::span<const std::int64_t> ids,
                              std::uint64_t augment_key) const override;

 private:
  Text text_;
  std::int64_t first_;
  std::int64_t bytes_;  // of its part
  std::int64_t seq_len_;
  std::int64_t samples_;
};

}  // namespace lockstep::data
