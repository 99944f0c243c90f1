// A data set for tests: points of three classes.
#pragma once
#include <ATen/Functions.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "lockstep/data/dataset.h"

namespace lockstep::engine::testing {

/// Samples are 6 features [B,6] with a class [B]; those in `bad` are `bad_value` all over.
class Points : public data::Dataset {
 public:
  explicit Points(std::int64_t size, std::set<std::int64_t> bad = {}, double bad_value = 0)
      : size_(size), bad_(std::move(bad)), bad_value_(bad_value) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t /*augment_key*/) const override {
    const auto n = static_cast<std::int64_t>(ids.size());
    data::Batch batch{at::empty({n, 6}), at::empty({n}, at::kLong), n, n};
    auto* feature = batch.input.mutable_data_ptr<float>();
    auto* target = batch.target.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t id : ids) {
      const bool is_bad = bad_.contains(id);
      for (std::int64_t f = 0; f < 6; ++f) {
        const double value = std::sin(static_cast<double>(id * 7 + f));
        *feature++ = static_cast<float>(is_bad ? bad_value_ : value);
      }
      *target++ = id % 3;
    }
    return batch;
  }

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  double bad_value_;
};

}  // namespace lockstep::engine::testing
