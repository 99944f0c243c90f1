#include "lockstep/comm/shm/reduce_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/comm/shm/symmetric_memory.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kAlignBytes = 4096;  // of a block in the buffer
// Steps that terms are staged ahead of the addition: what hides the other ranks' jitter.
constexpr std::uint64_t kAhead = 4;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

ReduceSteps::ReduceSteps(const Segment& segment, RingWriter& writer, Request request)
    : Operation(segment, writer, std::move(request)),
      function_(kernels().reduce(request_.kind.type, request_.kind.reduction)),
      terms_(static_cast<std::size_t>(ranks())) {
  const auto n = static_cast<std::size_t>(ranks());
  const std::size_t bytes = request_.count * element_bytes();
  const bool scatters = request_.kind.collective == Collective::reduce_scatter;
  const bool is_root = request_.kind.root == static_cast<std::uint32_t>(rank());
  block_bytes_ = scatters ? bytes : round_up((bytes + n - 1) / n, kAlignBytes);
  total_bytes_ = scatters ? bytes * n : bytes;
  const std::size_t piece = segment.layout().piece_bytes();
  steps_ = (block_bytes_ + piece - 1) / piece;
  gathers_ = request_.kind.collective == Collective::all_reduce ||
             (request_.kind.collective == Collective::reduce && is_root);
  keeps_ = request_.kind.collective != Collective::reduce || is_root;
}

void ReduceSteps::enter(Slot& slot, const Progress& progress) {
  first_ = progress.steps;
  write_place(slot, {});
}

ReduceSteps::Slice ReduceSteps::slice(int block, std::uint64_t step) const {
  const std::size_t piece = segment_.layout().piece_bytes();
  const std::size_t begin = static_cast<std::size_t>(block) * block_bytes_;
  const std::size_t end = std::min(begin + block_bytes_, total_bytes_);
  const std::size_t offset = begin + step * piece;
  return {offset, offset < end ? std::min(piece, end - offset) : 0};
}

bool ReduceSteps::move() {
  bool moved = stage();
  if (met()) {
    moved = reduce() || moved;
    moved = read() || moved;
  }
  return moved;
}

bool ReduceSteps::stage() {
  if (staged_ == steps_ || staged_ >= read_ + kAhead) return false;
  const Layout& layout = segment_.layout();
  const std::uint64_t at = first_ + staged_;
  if (!is_free(&RankBlock::reduced, at)) return false;
  std::byte* to = segment_.staged_ring(rank()) + at % layout.ring_steps() * layout.step_bytes();
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    const Slice part = slice(r, staged_);
    if (part.bytes > 0) {
      writer_.copy(to, static_cast<const std::byte*>(request_.input) + part.offset_bytes,
                   part.bytes);
    }
    to += layout.piece_bytes();
  }
  ++staged_;
  segment_.publish(segment_.own().staged.value, at + 1);
  return true;
}

bool ReduceSteps::reduce() {
  if (reduced_ == staged_) return false;
  const std::uint64_t at = first_ + reduced_;
  if (!all_at_least(&RankBlock::staged, at + 1) || !is_free(&RankBlock::consumed, at)) return false;
  const Slice mine = slice(rank(), reduced_);
  if (mine.bytes > 0) add_up(mine, at);
  ++reduced_;
  segment_.publish(segment_.own().reduced.value, at + 1);
  return true;
}

void ReduceSteps::add_up(const Slice& mine, std::uint64_t at) {
  const Layout& layout = segment_.layout();
  const std::uint64_t place = at % layout.ring_steps();
  for (int r = 0; r < ranks(); ++r) {
    const auto row = static_cast<std::size_t>(r);
    if (r == rank()) {
      terms_[row] = static_cast<const std::byte*>(request_.input) + mine.offset_bytes;
    } else {
      const int my_turn = rank() < r ? rank() : rank() - 1;  // they stage for all but themselves
      terms_[row] = segment_.staged_ring(r) + place * layout.step_bytes() +
                    static_cast<std::size_t>(my_turn) * layout.piece_bytes();
    }
  }
  const std::size_t count = mine.bytes / element_bytes();
  std::byte* const shared = segment_.result_ring(rank()) + place * layout.piece_bytes();
  const bool scatters = request_.kind.collective == Collective::reduce_scatter;
  if (!keeps_) {
    function_(shared, terms_.data(), ranks(), count);
    return;
  }
  std::byte* const own = static_cast<std::byte*>(request_.output) + mine.offset_bytes -
                         (scatters ? static_cast<std::size_t>(rank()) * block_bytes_ : 0);
  function_(own, terms_.data(), ranks(), count);
  if (request_.kind.collective == Collective::all_reduce) writer_.copy(shared, own, mine.bytes);
}

bool ReduceSteps::read() {
  if (read_ == reduced_) return false;
  const std::uint64_t at = first_ + read_;
  if (gathers_) {
    if (!all_at_least(&RankBlock::reduced, at + 1)) return false;
    const Layout& layout = segment_.layout();
    for (int r = 0; r < ranks(); ++r) {
      if (r == rank()) continue;
      const Slice part = slice(r, read_);
      if (part.bytes == 0) continue;
      std::memcpy(static_cast<std::byte*>(request_.output) + part.offset_bytes,
                  segment_.result_ring(r) + at % layout.ring_steps() * layout.piece_bytes(),
                  part.bytes);
    }
  }
  ++read_;
  segment_.publish(segment_.own().consumed.value, at + 1);
  return true;
}

bool ReduceSteps::is_through(int other) const {
  return segment_.block(other).consumed.value.load(std::memory_order_acquire) >= first_ + steps_;
}

void ReduceSteps::leave(Progress& progress) { progress.steps = first_ + steps_; }

}  // namespace lockstep::comm::shm
