// B samples, T tokens.
#include "lockstep/data/text_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {

Batch empty_token_batch(std::int64_t samples, std::int64_t seq_len) {
  Batch batch;
  batch.input = at::empty({samples, seq_len}, at::kLong);
  batch.target = at::empty({samples, seq_len}, at::kLong);
  batch.samples = samples;
  batch.weight = samples * seq_len;
  return batch;
}

TextDataset::TextDataset(Text text, std::int64_t first, std::int64_t count, std::int64_t seq_len,
                         std::int64_t max_samples)
    : text_(std::move(text)), first_(first), bytes_(count), seq_len_(seq_len), samples_(0) {
  LOCKSTEP_CHECK(seq_len >= 1, "a sample has at least one token");
  LOCKSTEP_CHECK(
      first >= 0 && count >= 0 && first + count <= static_cast<std::int64_t>(text_->size()),
      "a part outside of the text");
  if (count > 0) samples_ = (count - 1) / seq_len;
  if (max_samples > 0) samples_ = std::min(samples_, max_samples);
}

Batch TextDataset::collate(std::span<const std::int64_t> ids, std::uint64_t /*augment_key*/) const {
  Batch batch = empty_token_batch(static_cast<std::int64_t>(ids.size()), seq_len_);
  auto* input = batch.input.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t id : ids) {
    LOCKSTEP_CHECK(id >= 0 && id < samples_, "no such sample");
    const std::uint8_t* const bytes = text_->data() + first_ + id * seq_len_;
    input = std::copy_n(bytes, seq_len_, input);
    target = std::copy_n(bytes + 1, seq_len_, target);
  }
  return batch;
}

}  // namespace lockstep::data
