#include "lockstep/comm/shm/gather_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::comm::shm {
namespace {

// Each call of the kernel costs as much as some pages; in between, the end of a group is noticed.
constexpr std::size_t kReadBytes = std::size_t{512} << 10;

}  // namespace

GatherSteps::GatherSteps(const Segment& segment, RingWriter& writer, Gathering& gathering,
                         Request request)
    : ExchangeSteps(segment, writer, std::move(request)),
      gathering_(gathering),
      offers_(static_cast<std::size_t>(ranks())) {}

void GatherSteps::enter(Slot& slot, const Progress& progress) {
  ExchangeSteps::enter(slot, progress);
  step_ = progress.steps;
  // Who enters the second collective has seen all ranks enter the first: they are there.
  const bool reads = sequence() > 1 && gathering_.peers.is_readable();
  GatherOffer offer = gathering_.costs.next_offer(part_bytes(), reads);
  offer.address = reinterpret_cast<std::uintptr_t>(request_.input);
  write_offer(slot, offer);
  expects_reading_ = agreed_way({&offer, 1}) == GatherWay::reading;
}

/// All ranks read the same slots, so all come to the same way.
void GatherSteps::choose_way() {
  for (int r = 0; r < ranks(); ++r) {
    offers_[static_cast<std::size_t>(r)] = read_offer(slot_of(r));
  }
  way_ = agreed_way(offers_);
  stage_ = way_ == GatherWay::reading ? Stage::reading : Stage::in_steps;
  if (way_ == GatherWay::plain) store_by(Storing::plain);
  if (way_ == GatherWay::streamed) store_by(Storing::streamed);
}

bool GatherSteps::move() {
  if (!met() && (!expects_reading_ || own_bytes_ == part_bytes())) return false;
  const auto began = std::chrono::steady_clock::now();
  if (met() && stage_ == Stage::meeting) choose_way();
  const bool moved = move_on();
  if (moved) took_ += std::chrono::steady_clock::now() - began;
  return moved;
}

bool GatherSteps::move_on() {
  switch (stage_) {
    case Stage::meeting:
      return put_own_piece();
    case Stage::reading:
      return reads_from_ < ranks() ? read_piece() : end_reading();
    case Stage::reading_of_others:
      return look_at_others();
    default:
      return ExchangeSteps::move();
  }
}

bool GatherSteps::put_own_piece() {
  const std::size_t bytes = std::min(kReadBytes, part_bytes() - own_bytes_);
  put_own(own_bytes_, bytes);
  own_bytes_ += bytes;
  if (own_bytes_ == part_bytes()) own_is_put();
  return true;
}

bool GatherSteps::read_piece() {
  const std::size_t bytes = std::min(kReadBytes, part_bytes() - read_bytes_);
  if (read_bytes_ == own_bytes_) (void)put_own_piece();
  const int from = (rank() + reads_from_) % ranks();
  std::byte* const to = static_cast<std::byte*>(request_.output) +
                        static_cast<std::size_t>(from) * part_bytes() + read_bytes_;
  const std::uint64_t address = offers_[static_cast<std::size_t>(from)].address + read_bytes_;
  if (!has_failed_) has_failed_ = !gathering_.peers.read(from, address, to, bytes);
  read_bytes_ += bytes;
  if (read_bytes_ == part_bytes()) {
    read_bytes_ = 0;
    ++reads_from_;
  }
  return true;
}

/// Tells the others, who may then change their inputs.
bool GatherSteps::end_reading() {
  for (int r = 0; r < ranks(); ++r) {
    if (r != rank() && !gathering_.peers.still_holds(r)) has_failed_ = true;
  }
  if (segment_.aborted()) return false;  // what was read may be anything
  const std::uint64_t done = step_ + 1;
  if (has_failed_) {
    gathering_.peers.give_up();
    segment_.own().unread.value.store(done, std::memory_order_relaxed);
  }
  segment_.own().staged.value.store(done, std::memory_order_relaxed);
  segment_.own().consumed.value.store(done, std::memory_order_relaxed);
  segment_.publish(segment_.own().reduced.value, done);
  stage_ = Stage::reading_of_others;
  return true;
}

bool GatherSteps::look_at_others() {
  const std::uint64_t done = step_ + 1;
  if (!all_at_least(&RankBlock::reduced, done)) return false;
  bool all_have_read = true;
  for (int r = 0; r < ranks(); ++r) {
    all_have_read = all_have_read && segment_.block(r).unread.value.load() != done;
  }
  stage_ = all_have_read ? Stage::all_read : Stage::in_steps;
  if (!all_have_read) begin_at(done);
  return true;
}

bool GatherSteps::finished() const {
  return stage_ == Stage::all_read || (stage_ == Stage::in_steps && ExchangeSteps::finished());
}

bool GatherSteps::is_through(int other) const {
  if (stage_ == Stage::meeting || stage_ == Stage::in_steps) {
    return ExchangeSteps::is_through(other);
  }
  return segment_.block(other).reduced.value.load(std::memory_order_acquire) >= step_ + 1;
}

void GatherSteps::leave(Progress& progress) {
  const bool is_other_way = way_ == GatherWay::reading && stage_ == Stage::in_steps;
  if (!is_other_way) {
    gathering_.costs.note(way_, part_bytes(), static_cast<double>(took_.count()));
  }
  if (stage_ == Stage::in_steps) return ExchangeSteps::leave(progress);
  progress.steps = step_ + 1;
}

}  // namespace lockstep::comm::shm
