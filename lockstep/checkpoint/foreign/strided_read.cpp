#include "lockstep/checkpoint/foreign/strided_read.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{1} << 28U;
constexpr std::uint64_t kLargeBlockBytes = std::uint64_t{1} << 16U;
constexpr std::uint64_t kSmallBlockBytes = std::uint64_t{1} << 12U;

/// Blocks of the array that were read: the columns of a transposed matrix touch the same blocks row
/// after row.
class Blocks {
 public:
  Blocks(std::uint64_t array_bytes, const FetchBytes& fetch)
      : array_bytes_(array_bytes),
        fetch_(fetch),
        block_bytes_(array_bytes <= kMaxCacheBytes ? kLargeBlockBytes : kSmallBlockBytes) {}

  void copy(std::uint64_t at, std::span<std::byte> out) {
    while (!out.empty()) {
      const std::vector<std::byte>& block = block_of(at / block_bytes_);
      const std::uint64_t within = at % block_bytes_;
      const std::size_t count = std::min<std::uint64_t>(out.size(), block.size() - within);
      std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(within), count, out.begin());
      out = out.subspan(count);
      at += count;
    }
  }
  [[nodiscard]] std::uint64_t block_bytes() const { return block_bytes_; }

 private:
  const std::vector<std::byte>& block_of(std::uint64_t index) {
    if (last_ != nullptr && index == last_index_) return *last_;
    if (blocks_.size() * block_bytes_ >= kMaxCacheBytes) blocks_.clear();
    auto [found, is_new] = blocks_.try_emplace(index);
    if (is_new) {
      const std::uint64_t begin = index * block_bytes_;
      found->second.resize(std::min(block_bytes_, array_bytes_ - begin));
      fetch_(begin, found->second);
    }
    last_index_ = index;
    last_ = &found->second;
    return *last_;
  }

  std::uint64_t array_bytes_;
  const FetchBytes& fetch_;
  std::uint64_t block_bytes_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> blocks_;
  std::uint64_t last_index_ = 0;
  const std::vector<std::byte>* last_ = nullptr;
};

struct Dim {
  std::uint64_t size;
  std::uint64_t stride;
};

/// The view as runs of neighbouring bytes, and the dims that place them.
struct Runs {
  std::uint64_t begin = 0;  // bytes, of the first
  std::uint64_t bytes = 0;  // of each
  std::vector<Dim> dims;    // outermost first; strides in bytes

  [[nodiscard]] std::uint64_t address(std::uint64_t run) const {
    std::uint64_t at = begin;
    for (std::size_t i = dims.size(); i-- > 0; run /= dims[i].size) {
      at += run % dims[i].size * dims[i].stride;
    }
    return at;
  }
};

Runs runs_of(const StridedView& view) {
  Runs runs{view.offset * view.element_bytes, view.element_bytes, {}};
  bool inner = true;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(view.shape[i]);
    if (size == 1) continue;
    const std::uint64_t stride = static_cast<std::uint64_t>(view.stride[i]) * view.element_bytes;
    inner = inner && stride == runs.bytes;
    if (inner) {
      runs.bytes *= size;
    } else {
      runs.dims.push_back({size, stride});
    }
  }
  std::reverse(runs.dims.begin(), runs.dims.end());
  return runs;
}

}  // namespace

std::optional<std::uint64_t> elements_reached(const StridedView& view) {
  if (view.shape.size() != view.stride.size()) return std::nullopt;
  std::uint64_t last = view.offset;
  bool empty = false;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] < 0 || view.stride[i] < 0) return std::nullopt;
    empty = empty || view.shape[i] == 0;
    std::uint64_t reach = 0;
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(view.shape[i], 1));
    if (__builtin_mul_overflow(size - 1, static_cast<std::uint64_t>(view.stride[i]), &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  if (__builtin_add_overflow(last, std::uint64_t{1}, &last)) return std::nullopt;
  return last;
}

void read_strided(const StridedView& view, std::uint64_t array_bytes, const FetchBytes& fetch,
                  std::uint64_t begin, std::span<std::byte> out) {
  if (out.empty()) return;
  const Runs runs = runs_of(view);
  if (runs.dims.empty()) return fetch(runs.begin + begin, out);
  Blocks blocks(array_bytes, fetch);
  const Dim& inner = runs.dims.back();
  std::uint64_t run = begin / runs.bytes;
  std::uint64_t within = begin % runs.bytes;
  std::uint64_t at = runs.address(run);
  while (true) {
    const std::size_t count = std::min<std::uint64_t>(out.size(), runs.bytes - within);
    if (count >= blocks.block_bytes()) {
      fetch(at + within, out.first(count));
    } else {
      blocks.copy(at + within, out.first(count));
    }
    out = out.subspan(count);
    if (out.empty()) return;
    within = 0;
    at = ++run % inner.size == 0 ? runs.address(run) : at + inner.stride;
  }
}

}  // namespace lockstep::checkpoint
