#include "lockstep/comm/shm/exchange_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::uint64_t kAhead = 8;  // steps sent before the others' are read

// A result this large does not stay in a cache until somebody reads it: storing past the caches
// saves fetching the lines that are overwritten.
constexpr std::size_t kStreamedOutputBytes = std::size_t{4} << 20;

// From here on a piece is read once for both places it is stored at; below, two copies are as fast.
constexpr std::size_t kStoredTwiceBytes = std::size_t{1} << 20;

std::size_t piece_at(std::size_t total_bytes, std::size_t offset_bytes, std::size_t piece_bytes) {
  return offset_bytes < total_bytes ? std::min(piece_bytes, total_bytes - offset_bytes) : 0;
}

/// \param whole bytes of what is put there in pieces.
void put(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t whole) {
  if (whole >= kStreamedOutputBytes) {
    kernels().copy_stream(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

ExchangeSteps::ExchangeSteps(const Segment& segment, RingWriter& writer, Request request)
    : Operation(segment, writer, std::move(request)),
      individual_(request_.kind.collective == Collective::scatter ||
                  request_.kind.collective == Collective::all_to_all),
      outgoing_(static_cast<std::size_t>(ranks())),
      incoming_(static_cast<std::size_t>(ranks())) {
  plan();
}

void ExchangeSteps::plan() {
  const bool is_root = request_.kind.root == static_cast<std::uint32_t>(rank());
  const std::size_t bytes = request_.count * element_bytes();
  switch (request_.kind.collective) {
    case Collective::broadcast:
      if (is_root) {
        outgoing_[0] = {static_cast<const std::byte*>(request_.input), bytes};
      } else {
        incoming_[request_.kind.root] = {static_cast<std::byte*>(request_.output), bytes};
      }
      break;
    case Collective::all_gather:
      plan_common(true, true);
      break;
    case Collective::gather:
      plan_common(!is_root, is_root);
      break;
    default:
      plan_parts();
  }
}

void ExchangeSteps::plan_common(bool sends, bool reads_all) {
  const std::size_t bytes = request_.count * element_bytes();
  const auto* const input = static_cast<const std::byte*>(request_.input);
  if (sends) outgoing_[0] = {input, bytes};
  if (!reads_all) return;
  auto* const output = static_cast<std::byte*>(request_.output);
  for (std::size_t r = 0; r < incoming_.size(); ++r) incoming_[r] = {output + r * bytes, bytes};
  std::byte* const own = output + static_cast<std::size_t>(rank()) * bytes;
  if (own == input) return;
  if (sends) {
    own_copy_ = own;
  } else {
    std::memcpy(own, input, bytes);
  }
}

void ExchangeSteps::plan_parts() {
  const bool scatters = request_.kind.collective == Collective::scatter;
  const bool is_root = request_.kind.root == static_cast<std::uint32_t>(rank());
  const auto* from = static_cast<const std::byte*>(request_.input);
  auto* to = static_cast<std::byte*>(request_.output);
  for (std::size_t r = 0; r < outgoing_.size(); ++r) {
    const auto elements = [&](const std::vector<std::size_t>& counts) {
      return counts.empty() ? request_.count : counts[r];
    };
    if (!scatters || is_root) {
      outgoing_[r] = {from, elements(request_.send_counts) * element_bytes()};
      from += outgoing_[r].bytes;
    }
    if (!scatters || r == request_.kind.root) {
      incoming_[r] = {to, elements(request_.receive_counts) * element_bytes()};
      to += incoming_[r].bytes;
    }
  }
  const auto me = static_cast<std::size_t>(rank());
  const Outgoing& own = outgoing_[me];
  if (own.bytes > 0 && own.from != incoming_[me].to) {
    std::memcpy(incoming_[me].to, own.from, std::min(own.bytes, incoming_[me].bytes));
  }
}

void ExchangeSteps::enter(Slot& slot, const Progress& progress) {
  first_ = progress.steps;
  if (!request_.kind.uneven) return;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;  // its own part is copied already
    slot.stream_bytes =
        std::max<std::uint64_t>(slot.stream_bytes, outgoing_[static_cast<std::size_t>(r)].bytes);
  }
  std::byte* const counts = segment_.direct(rank(), progress.sequence);
  for (std::size_t r = 0; r < outgoing_.size(); ++r) {
    const std::uint64_t bytes = outgoing_[r].bytes;
    std::memcpy(counts + r * sizeof bytes, &bytes, sizeof bytes);
  }
}

/// Uneven counts are not in the fingerprint: what each rank sends must be what is expected of it.
void ExchangeSteps::compare_counts() const {
  for (int r = 0; r < ranks(); ++r) {
    std::uint64_t sent = 0;
    const auto place = static_cast<std::size_t>(rank()) * sizeof sent;
    std::memcpy(&sent, segment_.direct(r, sequence()) + place, sizeof sent);
    const std::size_t expected = incoming_[static_cast<std::size_t>(r)].bytes;
    if (sent == expected && (r == rank() || slot_of(r).stream_bytes >= sent)) continue;
    if (sent == expected) refuse_values(r, "parts of an all_to_all longer than its longest");
    const std::string what = "collective #" + std::to_string(sequence()) +
                             ": in all_to_all, rank " + std::to_string(r) + " sends " +
                             std::to_string(sent / element_bytes()) + " elements to rank " +
                             std::to_string(rank()) + ", which expects " +
                             std::to_string(expected / element_bytes()) + " from it";
    segment_.abort(what, AbortKind::disagreement);
    throw Disagreement(what);
  }
}

/// The longest stream of all ranks, each of which knows only its own when counts are uneven.
void ExchangeSteps::learn_steps() {
  std::uint64_t longest = request_.count * element_bytes();
  if (request_.kind.uneven) {
    compare_counts();
    longest = 0;
    for (int r = 0; r < ranks(); ++r) longest = std::max(longest, slot_of(r).stream_bytes);
  }
  const std::size_t piece = segment_.layout().piece_bytes();
  steps_ = (longest + piece - 1) / piece;
  steps_known_ = true;
}

std::size_t ExchangeSteps::turn(int reader, int writer) const {
  if (!individual_) return 0;
  return static_cast<std::size_t>(reader < writer ? reader : reader - 1);
}

bool ExchangeSteps::move() {
  if (!met()) return false;
  if (!steps_known_) learn_steps();
  const bool sent = send();
  return read() || sent;
}

bool ExchangeSteps::send() {
  if (sent_ == steps_ || sent_ >= read_ + kAhead) return false;
  const Layout& layout = segment_.layout();
  const std::size_t piece = layout.piece_bytes();
  const std::uint64_t at = first_ + sent_;
  if (!is_free(individual_ ? &RankBlock::reduced : &RankBlock::consumed, at)) return false;
  const std::size_t offset = sent_ * piece;
  if (individual_) {
    std::byte* const ring =
        segment_.staged_ring(rank()) + at % layout.ring_steps() * layout.step_bytes();
    for (int r = 0; r < ranks(); ++r) {
      const Outgoing& part = outgoing_[static_cast<std::size_t>(r)];
      const std::size_t bytes = r == rank() ? 0 : piece_at(part.bytes, offset, piece);
      if (bytes > 0) writer_.copy(ring + turn(r, rank()) * piece, part.from + offset, bytes);
    }
  } else if (const std::size_t bytes = piece_at(outgoing_[0].bytes, offset, piece); bytes > 0) {
    store_common(segment_.result_ring(rank()) + at % layout.ring_steps() * piece, offset, bytes);
  }
  ++sent_;
  segment_.publish(segment_.own().staged.value, at + 1);
  return true;
}

void ExchangeSteps::store_common(std::byte* to, std::size_t offset, std::size_t bytes) {
  const std::byte* const from = outgoing_[0].from + offset;
  const std::size_t whole = outgoing_[0].bytes;
  if (storing_ == Storing::plain && own_copy_ != nullptr && whole >= kStoredTwiceBytes &&
      whole < kStreamedOutputBytes) {
    kernels().copy_twice(to, own_copy_ + offset, from, bytes);
    return;
  }
  switch (storing_) {
    case Storing::measured:
      writer_.copy(to, from, bytes);
      break;
    case Storing::plain:
      std::memcpy(to, from, bytes);
      break;
    case Storing::streamed:
      kernels().copy_stream(to, from, bytes);
      stream_fence();
  }
  put_own(offset, bytes);  // while the piece is in a cache
}

void ExchangeSteps::put_own(std::size_t offset, std::size_t bytes) const {
  if (own_copy_ == nullptr) return;
  put(own_copy_ + offset, outgoing_[0].from + offset, bytes, outgoing_[0].bytes);
}

bool ExchangeSteps::read() {
  if (read_ == sent_) return false;
  const Layout& layout = segment_.layout();
  const std::size_t piece = layout.piece_bytes();
  const std::uint64_t at = first_ + read_;
  const std::uint64_t place = at % layout.ring_steps();
  if (!all_at_least(&RankBlock::staged, at + 1)) return false;
  for (int r = 0; r < ranks(); ++r) {
    const Incoming& part = incoming_[static_cast<std::size_t>(r)];
    const std::size_t bytes = r == rank() ? 0 : piece_at(part.bytes, read_ * piece, piece);
    if (bytes == 0) continue;
    const std::byte* const ring = individual_
                                      ? segment_.staged_ring(r) + place * layout.step_bytes()
                                      : segment_.result_ring(r) + place * piece;
    const std::byte* const from = ring + turn(rank(), r) * piece;
    put(part.to + read_ * piece, from, bytes, part.bytes);
  }
  stream_fence();
  ++read_;
  segment_.own().reduced.value.store(at + 1, std::memory_order_release);
  segment_.publish(segment_.own().consumed.value, at + 1);
  return true;
}

bool ExchangeSteps::is_through(int other) const {
  return steps_known_ &&
         segment_.block(other).consumed.value.load(std::memory_order_acquire) >= first_ + steps_;
}

void ExchangeSteps::leave(Progress& progress) { progress.steps = first_ + steps_; }

}  // namespace lockstep::comm::shm
