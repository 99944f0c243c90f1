#include "lockstep/comm/shm/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/flight_words.h"

namespace lockstep::comm::shm {
namespace {

std::string text_of(int rank, const Slot& slot) {
  return entry_text(rank, slot.fingerprint, shared_text(slot.site, kSiteBytes));
}

}  // namespace

Operation::Operation(const Segment& segment, RingWriter& writer, Request request)
    : segment_(segment),
      writer_(writer),
      request_(std::move(request)),
      fingerprint_(make_fingerprint(request_.kind, request_.count)) {}

void Operation::start(Progress& progress) {
  sequence_ = ++progress.sequence;
  Slot& slot = segment_.own().slots[sequence_ & 1U];
  slot.fingerprint = fingerprint_;
  slot.stream_bytes = 0;
  const std::size_t length = std::min(request_.site.size(), kSiteBytes - 1);
  std::memcpy(slot.site, request_.site.data(), length);
  slot.site[length] = '\0';
  enter(slot, progress);
  segment_.publish(slot.sequence, sequence_);
}

bool Operation::advance(Progress& progress) {
  bool moved = !met() && meet();
  moved = move() || moved;
  if (met() && finished()) {
    leave(progress);
    complete();
    return true;
  }
  return moved;
}

bool Operation::all_at_least(Counter RankBlock::*counter, std::uint64_t value) const {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    if ((segment_.block(r).*counter).value.load(std::memory_order_acquire) < value) return false;
  }
  return true;
}

bool Operation::is_free(Counter RankBlock::*counter, std::uint64_t step) const {
  const std::uint64_t ring_steps = segment_.layout().ring_steps();
  return step < ring_steps || all_at_least(counter, step - ring_steps + 1);
}

bool Operation::meet() {
  const int before = met_;
  while (met_ < ranks()) {
    if (met_ != rank()) {
      if (slot_of(met_).sequence.load(std::memory_order_acquire) != sequence_) break;
      compare(met_);
    }
    ++met_;
  }
  return met_ != before;
}

void Operation::compare(int other) {
  const Slot& theirs = slot_of(other);
  if (theirs.fingerprint == fingerprint_) return;
  const int first = std::min(rank(), other);
  const int second = std::max(rank(), other);
  const std::string what = "collective #" + std::to_string(sequence_) + ": " +
                           text_of(first, slot_of(first)) + ", " + text_of(second, slot_of(second));
  segment_.abort(what, AbortKind::disagreement);
  throw Disagreement(what);
}

std::string Operation::title() const {
  const std::string text =
      std::string(name(request_.kind.collective)) + " #" + std::to_string(sequence_);
  return request_.site.empty() ? text : text + " (" + request_.site + ")";
}

int Operation::deserter() const {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank() || segment_.block(r).closed.load(std::memory_order_acquire) == 0) continue;
    const bool entered = slot_of(r).sequence.load(std::memory_order_acquire) == sequence_;
    if (!entered || !is_through(r)) return r;
  }
  return -1;
}

std::string Operation::missing() const {
  std::vector<int> absent;
  std::vector<int> slow;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    const bool here = slot_of(r).sequence.load(std::memory_order_acquire) == sequence_;
    (here ? slow : absent).push_back(r);
  }
  if (!absent.empty())
    return ranks_text(absent) + (absent.size() == 1 ? " has" : " have") + " not entered it";
  return "all ranks entered it; " + ranks_text(slow) + " stopped within it";
}

}  // namespace lockstep::comm::shm
