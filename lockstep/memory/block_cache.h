// Blocks of memory that remember their category; freed ones are kept for the next request.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

#include "lockstep/memory/category.h"
#include "lockstep/memory/size_classes.h"

namespace lockstep::memory {

struct Block;  // the header in front of a payload

/// Thread-safe; a block may be freed by another thread than the one that took it. One lock: it is
/// held for some twenty instructions, a tensor operation takes thousands.
///
/// Cached blocks are resident memory, so they are bounded by what was needed anyway: blocks in use
/// and cached together stay within the highest use so far plus an eighth (at least 16 MiB); the
/// blocks unused longest go first. A training step, which frees all its activations, thus keeps
/// them. A budget bounds both below that, and refuses what would need more.
class BlockCache {
 public:
  /// 64-byte aligned, uninitialised. \throws EnvironmentFault when memory, or the budget, is out.
  [[nodiscard]] void* allocate(std::size_t bytes, Category category);
  /// A pointer that did not come from here goes to free(): LibTorch frees what it allocated before
  /// install() through the allocator of the day.
  void free(void* payload) noexcept;

  /// Memory from elsewhere that belongs to a category: `bytes` more, or less when negative.
  void count_held(Category category, std::int64_t bytes) noexcept;

  /// The most that blocks in use and cached may take together from now on. Blocks there are stay.
  /// \returns what it was.
  std::size_t set_budget(std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t held_bytes() const;  // in use and cached: whole blocks

  /// Without `runtime`.
  [[nodiscard]] Usage usage() const;
  /// \param cache_too makes what is in use now the bound of the cache, as at the start.
  void reset_peak(bool cache_too = false);
  void release_cached() noexcept;

 private:
  [[nodiscard]] Block* take_cached(std::size_t size_class) noexcept;
  void put_cached(Block* block) noexcept;
  void unlink(Block* block) noexcept;
  [[nodiscard]] Block* evict_above(std::size_t limit_bytes) noexcept;
  [[nodiscard]] std::size_t limit_bytes() const noexcept;
  void count(Category category, std::int64_t bytes) noexcept;
  [[nodiscard]] Block* make_block(std::size_t size_class, std::size_t bytes);

  mutable std::mutex mutex_;
  std::array<Block*, kSizeClasses>
      cached_{};  // last freed first: its lines may still be in a cache
  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  std::size_t cached_bytes_ = 0;     // capacities
  std::size_t used_bytes_ = 0;       // capacities
  std::size_t peak_used_bytes_ = 0;  // the bound of the cache
  std::size_t budget_bytes_ = std::numeric_limits<std::size_t>::max();
  Usage usage_;
  std::int64_t total_bytes_ = 0;
};

}  // namespace lockstep::memory
