// Bytes of CPU tensors by what they are for, measured by the allocator itself.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

namespace lockstep::memory {

/// The categories of the memory plan (docs/cli.md, `plan`).
enum class Category : std::uint8_t {
  parameters,     // compute weights
  gradients,      // incl. fp32 accumulators and buckets
  optimizer,      // masters and moments
  activations,    // saved for backward, and temporaries of forward and backward
  buffers,        // module buffers, data batches, workspace
  communication,  // staging
  runtime,        // libraries and allocator slack: resident memory not in any other category
};
inline constexpr std::size_t kCategoryCount = 7;
[[nodiscard]] std::string_view name(Category category);

/// Installs the tagging allocator as LibTorch's CPU allocator. Call first in main: tensors made
/// before are not counted. Blocks are cached and reused (64-byte aligned); idempotent.
void install();

/// Allocations of this thread are counted under `category` until the scope ends.
class Scope {
 public:
  explicit Scope(Category category) noexcept;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  Category outer_;
};

/// What the innermost Scope of this thread says.
[[nodiscard]] Category category_of_thread() noexcept;

/// Counts memory that LibTorch's allocator did not hand out, a data set in a vector say, as long as
/// it lives.
class Held {
 public:
  Held(Category category, std::int64_t bytes);
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

 private:
  Category category_;
  std::int64_t bytes_;
};

struct Usage {
  std::array<std::int64_t, kCategoryCount> current_bytes{};
  std::array<std::int64_t, kCategoryCount> peak_bytes{};  // at the moment the tagged total peaked
  std::int64_t peak_total_bytes = 0;                      // of the tagged categories
  std::int64_t cached_bytes = 0;                          // freed blocks kept for reuse
};

/// Tagged bytes; `runtime` is filled as peak resident memory less all others.
[[nodiscard]] Usage usage();
void reset_peak();
/// Gives cached blocks back to the system.
void release_cached();

/// Keeps resident memory below `bytes`: a tensor that would pass it is refused as one that the
/// system refuses (LS-3090). What is resident beside tensors counts as it is now.
/// \param bytes 0 = no such limit any more.
void limit_resident(std::int64_t bytes);
/// While it lives no such limit holds: for work that no smaller micro-batch makes smaller.
class NoLimit {
 public:
  NoLimit();
  NoLimit(const NoLimit&) = delete;
  NoLimit& operator=(const NoLimit&) = delete;
  ~NoLimit();

 private:
  std::size_t budget_bytes_;
};

/// Resident memory at the moment that tensors held most since reset_peak(), as far as the allocator
/// can tell: what is resident beside tensors counts as it is now.
[[nodiscard]] std::int64_t peak_needed_bytes();
/// As if the process had never held more than now: for usage(), peak_resident_bytes() (where the
/// system lets it be reset) and what the cache keeps.
void forget_peaks();

/// Whether an error says that memory ran out: LS-3090, std::bad_alloc, or LibTorch's and oneDNN's
/// way to say so.
[[nodiscard]] bool is_out_of_memory(const std::exception& error);

/// The code of what allocators throw when memory is out.
inline constexpr const char* kOutOfMemoryCode = "LS-3090";

/// Peak resident memory of this process so far, in bytes (VmHWM).
[[nodiscard]] std::int64_t peak_resident_bytes();
/// The same as it was at most 10 ms ago: reading it takes longer than a small layer.
[[nodiscard]] std::int64_t recent_peak_resident_bytes();

}  // namespace lockstep::memory
