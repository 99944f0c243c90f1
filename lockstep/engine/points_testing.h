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
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      for (std::int64_t f = 0; f < 6; ++f) {
        batch.input[i][f] = std::sin(static_cast<double>(id * 7 + f));
      }
      if (bad_.contains(id)) batch.input[i].fill_(bad_value_);
      batch.target[i] = id % 3;
    }
    return batch;
  }

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  double bad_value_;
};

}  // namespace lockstep::engine::testing
