#include "lockstep/memory/block_cache.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/memory/pages.h"

namespace lockstep::memory {

struct Block {
  std::uint64_t mark;  // tells our blocks from foreign pointers
  std::uint32_t size_class;
  Category category;
  std::int64_t bytes;  // as requested
  Block* class_next;   // while cached: the free list of the class,
  Block* class_previous;
  Block* newer;  // and all cached blocks by age
  Block* older;

  [[nodiscard]] void* payload() { return reinterpret_cast<std::byte*>(this) + kHeaderBytes; }
  [[nodiscard]] std::size_t capacity_bytes() const { return bytes_of_class(size_class); }
};

namespace {

constexpr std::size_t kLeastSlackBytes = std::size_t{16} << 20;
// How many classes up a cached block may be: 25 % more than asked for.
constexpr std::size_t kClassesUp = 2;

Block* block_of(void* payload) {
  return reinterpret_cast<Block*>(static_cast<std::byte*>(payload) - kHeaderBytes);
}

std::uint64_t mark_of(const Block* block) {
  return reinterpret_cast<std::uintptr_t>(block) ^ 0x6C6F636B73746570U;
}

EnvironmentFault out_of_memory(const std::string& who, std::size_t bytes) {
  return EnvironmentFault(
      {kOutOfMemoryCode, "memory",
       who + " refused " + std::to_string(bytes) + " bytes for a tensor",
       "use a smaller batch.micro_batch (\"auto\" finds it) or model; `lockstep "
       "plan` says what a run needs"});
}

// `block` heads a chain through class_next.
void destroy_chain(Block* block) noexcept {
  while (block != nullptr) {
    Block* const next = block->class_next;
    block->mark = 0;
    give_back_payload(block->payload(), block->capacity_bytes());
    block = next;
  }
}

}  // namespace

static_assert(sizeof(Block) <= kHeaderBytes);

void* BlockCache::allocate(std::size_t bytes, Category category) {
  if (bytes > bytes_of_class(kSizeClasses - 1)) throw out_of_memory("the system", bytes);
  const std::size_t size_class = class_of(bytes);
  Block* block = nullptr;
  Block* surplus = nullptr;
  {
    const std::lock_guard lock(mutex_);
    block = take_cached(size_class);
    const std::size_t capacity =
        block != nullptr ? block->capacity_bytes() : bytes_of_class(size_class);
    if (block == nullptr && used_bytes_ + capacity > budget_bytes_) {
      throw out_of_memory("this rank's share of memory", bytes);
    }
    used_bytes_ += capacity;
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
    if (block == nullptr) surplus = evict_above(limit_bytes());
    count(category, static_cast<std::int64_t>(bytes));
  }
  destroy_chain(surplus);  // before the new block is mapped: resident memory stays within the limit
  if (block == nullptr) block = make_block(size_class, bytes);
  if (block == nullptr) {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= bytes_of_class(size_class);
    count(category, -static_cast<std::int64_t>(bytes));
    throw out_of_memory("the system", bytes);
  }
  block->bytes = static_cast<std::int64_t>(bytes);
  block->category = category;
  return block->payload();
}

Block* BlockCache::make_block(std::size_t size_class, std::size_t bytes) {
  const std::size_t capacity = bytes_of_class(size_class);
  void* payload = make_payload(capacity, bytes);
  if (payload == nullptr) {
    release_cached();
    payload = make_payload(capacity, bytes);
    if (payload == nullptr) return nullptr;
  }
  auto* block = new (block_of(payload)) Block{};
  block->mark = mark_of(block);
  block->size_class = static_cast<std::uint32_t>(size_class);
  return block;
}

void BlockCache::free(void* payload) noexcept {
  if (payload == nullptr) return;
  Block* const block = block_of(payload);
  if (block->mark != mark_of(block)) return std::free(payload);
  Block* surplus = nullptr;
  {
    const std::lock_guard lock(mutex_);
    count(block->category, -block->bytes);
    used_bytes_ -= block->capacity_bytes();
    put_cached(block);
    surplus = evict_above(limit_bytes());
  }
  destroy_chain(surplus);
}

void BlockCache::count_held(Category category, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  count(category, bytes);
}

void BlockCache::count(Category category, std::int64_t bytes) noexcept {
  usage_.current_bytes[static_cast<std::size_t>(category)] += bytes;
  total_bytes_ += bytes;
  if (total_bytes_ <= usage_.peak_total_bytes) return;
  usage_.peak_total_bytes = total_bytes_;
  usage_.peak_bytes = usage_.current_bytes;
}

std::size_t BlockCache::limit_bytes() const noexcept {
  return std::min(budget_bytes_,
                  peak_used_bytes_ + std::max(peak_used_bytes_ / 8, kLeastSlackBytes));
}

Block* BlockCache::take_cached(std::size_t size_class) noexcept {
  const std::size_t last = std::min(size_class + kClassesUp, kSizeClasses - 1);
  for (std::size_t c = size_class; c <= last; ++c) {
    Block* const block = cached_[c];
    if (block == nullptr) continue;
    unlink(block);
    return block;
  }
  return nullptr;
}

void BlockCache::put_cached(Block* block) noexcept {
  Block*& head = cached_[block->size_class];
  block->class_previous = nullptr;
  block->class_next = head;
  if (head != nullptr) head->class_previous = block;
  head = block;
  block->newer = nullptr;
  block->older = newest_;
  (newest_ != nullptr ? newest_->newer : oldest_) = block;
  newest_ = block;
  cached_bytes_ += block->capacity_bytes();
}

void BlockCache::unlink(Block* block) noexcept {
  (block->class_previous != nullptr ? block->class_previous->class_next
                                    : cached_[block->size_class]) = block->class_next;
  if (block->class_next != nullptr) block->class_next->class_previous = block->class_previous;
  (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
  (block->newer != nullptr ? block->newer->older : newest_) = block->older;
  cached_bytes_ -= block->capacity_bytes();
}

Block* BlockCache::evict_above(std::size_t limit_bytes) noexcept {
  Block* chain = nullptr;
  while (oldest_ != nullptr && used_bytes_ + cached_bytes_ > limit_bytes) {
    Block* const block = oldest_;
    unlink(block);
    block->class_next = chain;
    chain = block;
  }
  return chain;
}

Usage BlockCache::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage = usage_;
  usage.cached_bytes = static_cast<std::int64_t>(cached_bytes_);
  return usage;
}

std::size_t BlockCache::set_budget(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(budget_bytes_, bytes);
}

std::size_t BlockCache::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_ + cached_bytes_;
}

void BlockCache::reset_peak(bool cache_too) {
  const std::lock_guard lock(mutex_);
  if (cache_too) peak_used_bytes_ = used_bytes_;
  usage_.peak_total_bytes = total_bytes_;
  usage_.peak_bytes = usage_.current_bytes;
}

void BlockCache::release_cached() noexcept {
  Block* chain = nullptr;
  {
    const std::lock_guard lock(mutex_);
    chain = evict_above(0);
  }
  destroy_chain(chain);
}

}  // namespace lockstep::memory
