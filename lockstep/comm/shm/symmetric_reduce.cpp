#include "lockstep/comm/shm/symmetric_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::comm::shm {
namespace {

// What is added up at once: the sum is still in the first cache when it is handed out.
constexpr std::size_t kPieceBytes = 16 * 1024;

}  // namespace

SymmetricReduce::SymmetricReduce(const Segment& segment, RingWriter& writer, Request request)
    : ReduceSteps(segment, writer, std::move(request)),
      arrays_(static_cast<std::size_t>(ranks())) {
  const std::size_t bytes = request_.count * element_bytes();
  const auto n = static_cast<std::size_t>(ranks());
  // Shares end at pages, so that no two ranks write one line.
  const std::size_t share = (bytes / n + kPage - 1) / kPage * kPage;
  next_ = std::min(static_cast<std::size_t>(rank()) * share, bytes);
  end_ = rank() + 1 == ranks() ? bytes : std::min(next_ + share, bytes);
}

void SymmetricReduce::enter(Slot& slot, const Progress& progress) {
  ReduceSteps::enter(slot, progress);
  step_ = progress.steps;
  write_place(slot, {request_.symmetric_number, request_.symmetric->offset_of(request_.input)});
}

/// Each rank says where in its own array its buffer lies: they need not agree. All ranks read the
/// same slots, so all come to the same way.
SymmetricReduce::Way SymmetricReduce::find_arrays() {
  const std::size_t bytes = request_.count * element_bytes();
  for (int r = 0; r < ranks(); ++r) {
    const auto [number, offset] = read_place(slot_of(r));
    if (number != request_.symmetric_number) return Way::in_steps;
    std::byte* const array = request_.symmetric->array(r);
    const std::size_t room = request_.symmetric->bytes();
    if (offset > room || bytes > room - offset || offset % element_bytes() != 0) {
      refuse_values(r, "a buffer outside of its array");
    }
    arrays_[static_cast<std::size_t>(r)] = array + offset;
  }
  return Way::in_place;
}

bool SymmetricReduce::move() {
  if (!met()) return false;
  if (way_ == Way::unknown) way_ = find_arrays();
  return way_ == Way::in_place ? move_in_place() : ReduceSteps::move();
}

bool SymmetricReduce::move_in_place() {
  if (is_published_) return false;
  if (next_ < end_) {
    add_up_piece();
    return true;
  }
  is_published_ = true;
  const std::uint64_t done = step_ + 1;
  segment_.own().staged.value.store(done, std::memory_order_relaxed);
  segment_.own().consumed.value.store(done, std::memory_order_relaxed);
  segment_.publish(segment_.own().reduced.value, done);
  return true;
}

void SymmetricReduce::add_up_piece() {
  const std::size_t bytes = std::min(kPieceBytes, end_ - next_);
  for (std::size_t r = 0; r < arrays_.size(); ++r) terms_[r] = arrays_[r] + next_;
  std::byte* const own = arrays_[static_cast<std::size_t>(rank())] + next_;
  function_(own, terms_.data(), ranks(), bytes / element_bytes());
  for (std::byte* array : arrays_) {
    if (array + next_ != own) std::memcpy(array + next_, own, bytes);
  }
  next_ += bytes;
}

bool SymmetricReduce::finished() const {
  if (way_ != Way::in_place) return way_ == Way::in_steps && ReduceSteps::finished();
  return is_published_ && all_at_least(&RankBlock::reduced, step_ + 1);
}

bool SymmetricReduce::is_through(int other) const {
  if (way_ != Way::in_place) return ReduceSteps::is_through(other);
  return segment_.block(other).reduced.value.load(std::memory_order_acquire) >= step_ + 1;
}

void SymmetricReduce::leave(Progress& progress) {
  if (way_ == Way::in_steps) return ReduceSteps::leave(progress);
  progress.steps = step_ + 1;
}

}  // namespace lockstep::comm::shm
