#include "lockstep/comm/shm/segment.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/futex.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::uint32_t kAbortWritten = 2;

[[noreturn]] void refuse(const std::string& what) {
  throw BadData({"LS-4012", "shared memory of a group", what,
                 "start all ranks of a job from one build of lockstep"});
}

/// Reads the header as numbers of whatever origin.
Layout checked_layout(std::span<std::byte> memory, int ranks) {
  if (memory.size() < sizeof(Header)) refuse("it is smaller than its header");
  const auto& header = *reinterpret_cast<const Header*>(memory.data());
  if (header.magic.load(std::memory_order_acquire) != kMagic)
    refuse("it was not made by this version");
  if (header.ranks != static_cast<std::uint32_t>(ranks)) {
    refuse("it is for " + std::to_string(header.ranks) + " ranks, expected " +
           std::to_string(ranks));
  }
  const std::uint64_t ring_bytes = header.ring_bytes;
  if (ring_bytes == 0 || ring_bytes % kPage != 0 || ring_bytes > memory.size()) {
    refuse("its ring size is not possible: " + std::to_string(ring_bytes));
  }
  const std::uint64_t piece_bytes = header.piece_bytes;
  const auto others = static_cast<std::uint64_t>(ranks - 1);
  if (piece_bytes == 0 || piece_bytes % kPage != 0 || piece_bytes > ring_bytes ||
      others * piece_bytes > ring_bytes) {
    refuse("its piece size is not possible: " + std::to_string(piece_bytes));
  }
  const Layout layout(ranks, ring_bytes, piece_bytes);
  if (layout.total_bytes() != header.total_bytes || layout.total_bytes() != memory.size()) {
    refuse("it has " + std::to_string(memory.size()) + " bytes, expected " +
           std::to_string(layout.total_bytes()));
  }
  return layout;
}

}  // namespace

void refuse_values(int writer, const std::string& what) {
  throw BadData({"LS-4015", "shared memory of a group, written by rank " + std::to_string(writer),
                 what,
                 "no rank writes that: see whether something else writes into the memory of this "
                 "job (a debugger, native code, faulty memory), and start it again"});
}

std::string shared_text(const char* field, std::size_t field_bytes) {
  std::string text(field, strnlen(field, field_bytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }, '?');
  return text;
}

void Segment::format(std::span<std::byte> memory, const Layout& layout) {
  format_shared(memory, layout);
  for (int r = 0; r < layout.ranks(); ++r) format_data(memory, layout, r);
}

void Segment::format_data(std::span<std::byte> memory, const Layout& layout, int rank) {
  std::byte* mail = memory.data() + layout.data_offset(rank) + layout.mail_offset();
  for (int other = 1; other < layout.ranks(); ++other, mail += layout.mailbox_bytes()) {
    new (mail) Mailbox{};
  }
}

void Segment::format_shared(std::span<std::byte> memory, const Layout& layout) {
  LOCKSTEP_CHECK(memory.size() == layout.total_bytes() && layout.ranks() <= kMaxRanks,
                 "memory that does not fit its layout");
  auto* const header = new (memory.data()) Header{};
  for (int r = 0; r < layout.ranks(); ++r) new (memory.data() + layout.block_offset(r)) RankBlock{};
  header->ranks = static_cast<std::uint32_t>(layout.ranks());
  header->ring_bytes = layout.ring_bytes();
  header->piece_bytes = layout.piece_bytes();
  header->total_bytes = layout.total_bytes();
  header->magic.store(kMagic, std::memory_order_release);
}

Segment::Segment(std::span<std::byte> memory, int rank, int ranks)
    : base_(memory.data()),
      header_(reinterpret_cast<Header*>(memory.data())),
      blocks_(reinterpret_cast<RankBlock*>(memory.data() + sizeof(Header))),
      layout_(checked_layout(memory, ranks)),
      rank_(rank) {
  LOCKSTEP_CHECK(rank >= 0 && rank < ranks, "a rank outside of its group");
}

void Segment::publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) const {
  // Sequentially consistent with prepare_sleep(): either the sleeper sees the value, or we see that
  // it sleeps.
  counter.store(value, std::memory_order_seq_cst);
  for (int r = 0; r < ranks(); ++r) {
    if (r != rank_ && blocks_[r].sleeping.load(std::memory_order_seq_cst) != 0) wake(r);
  }
}

void Segment::publish_to(int reader, std::atomic<std::uint64_t>& counter,
                         std::uint64_t value) const {
  counter.store(value, std::memory_order_seq_cst);
  if (blocks_[reader].sleeping.load(std::memory_order_seq_cst) != 0) wake(reader);
}

void Segment::wake(int rank) const {
  blocks_[rank].bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(blocks_[rank].bell);
}

std::uint32_t Segment::prepare_sleep() const {
  own().sleeping.store(1, std::memory_order_seq_cst);
  return own().bell.load(std::memory_order_seq_cst);
}

void Segment::sleep(std::uint32_t seen, std::chrono::microseconds limit) const {
  futex_wait(own().bell, seen, limit);
  stay_awake();
}

void Segment::stay_awake() const { own().sleeping.store(0, std::memory_order_relaxed); }

void Segment::abort(std::string_view reason, AbortKind kind) const {
  std::uint32_t none = 0;
  if (!header_->abort.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return;
  const std::size_t length = std::min(reason.size(), kAbortBytes - 1);
  std::memcpy(header_->abort_text, reason.data(), length);
  header_->abort_text[length] = '\0';
  header_->abort_kind.store(static_cast<std::uint32_t>(kind), std::memory_order_relaxed);
  header_->abort.store(kAbortWritten, std::memory_order_release);
  for (int r = 0; r < ranks(); ++r) wake(r);
}

Segment::End Segment::end() const {
  // The writer may be killed between the two stores: then there is a reason, but no text of it.
  const auto is_written = [&] {
    return header_->abort.load(std::memory_order_acquire) == kAbortWritten;
  };
  for (int i = 0; i < 1000 && !is_written(); ++i) {
    futex_wait(header_->abort, 1, std::chrono::microseconds(100));
  }
  if (!is_written()) return {AbortKind::lost, "another rank gave up"};
  const bool disagreed = header_->abort_kind.load(std::memory_order_relaxed) ==
                         static_cast<std::uint32_t>(AbortKind::disagreement);
  return {disagreed ? AbortKind::disagreement : AbortKind::lost,
          shared_text(header_->abort_text, kAbortBytes)};
}

}  // namespace lockstep::comm::shm
