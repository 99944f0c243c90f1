#include "lockstep/data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"
#include "lockstep/base/units.h"

namespace lockstep::data {
namespace {

// Draws for different purposes from one (seed, epoch) must not be related.
constexpr std::uint64_t kShuffleStream = 0x73687566666c65;  // "shuffle"
constexpr std::uint64_t kAugmentStream = 0x6175676d656e74;  // "augment"

// Fisher and Yates in Durstenfeld's form (Knuth, TAOCP 2, 3.4.2 P).
void shuffle(std::vector<std::uint32_t>& ids, Rng rng) {
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
}

}  // namespace

Sampler::Sampler(std::int64_t dataset_size, std::uint64_t seed, std::int64_t global_batch)
    : dataset_size_(dataset_size), seed_(seed), global_batch_(global_batch) {
  if (dataset_size < 1) {
    throw UsageError({{"LS-2008", "data.train", "the data set has no sample",
                       "raise data.train_samples, or lower data.seq_len or data.eval_fraction"}});
  }
  LOCKSTEP_CHECK(global_batch >= 1, "a step needs at least one sample");
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (dataset_size > kMost) {
    throw UsageError({{"LS-2010", "data.train",
                       "the data set has " + format_count(dataset_size) +
                           " samples; a permutation holds at most " + format_count(kMost),
                       "lower data.train_samples, or raise data.seq_len"}});
  }
}

std::vector<std::int64_t> Sampler::step_ids(const Position& position) const {
  LOCKSTEP_CHECK(position.epoch >= 0 && position.sample >= 0 && position.sample < dataset_size_,
                 "position outside of an epoch: sample " + std::to_string(position.sample));
  if (cached_epoch_ != position.epoch) {
    permutation_.resize(static_cast<std::size_t>(dataset_size_));
    std::iota(permutation_.begin(), permutation_.end(), 0U);
    shuffle(permutation_,
            Rng(mix(seed_, static_cast<std::uint64_t>(position.epoch), kShuffleStream)));
    cached_epoch_ = position.epoch;
  }
  const auto first = permutation_.begin() + position.sample;
  return {first, first + std::min(global_batch_, dataset_size_ - position.sample)};
}

Position Sampler::after(const Position& position) const {
  if (dataset_size_ - position.sample <= global_batch_) return {position.epoch + 1, 0};
  return {position.epoch, position.sample + global_batch_};
}

std::uint64_t augment_key(std::uint64_t seed, std::int64_t epoch) {
  return mix(seed, static_cast<std::uint64_t>(epoch), kAugmentStream) | 1;
}

std::span<const std::int64_t> part_of(std::span<const std::int64_t> ids, std::int64_t leaf,
                                      std::int64_t leaves) {
  LOCKSTEP_CHECK(leaf >= 0 && leaf < leaves, "no such leaf: " + std::to_string(leaf));
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t base = count / leaves;
  const std::int64_t larger = count % leaves;  // parts with one more
  const std::int64_t first = leaf * base + std::min(leaf, larger);
  return ids.subspan(static_cast<std::size_t>(first),
                     static_cast<std::size_t>(base + (leaf < larger ? 1 : 0)));
}

}  // namespace lockstep::data
