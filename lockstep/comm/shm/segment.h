// One rank's view of a group's shared memory: where everything lies, who sleeps, whether it is
// over.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm::shm {

/// Ends a rank that read what no rank writes: nothing that `writer` says is to be trusted.
/// \throws BadData (LS-4015).
[[noreturn]] void refuse_values(int writer, const std::string& what);

/// What another rank wrote into a field, up to its end, control characters as "?".
[[nodiscard]] std::string shared_text(const char* field, std::size_t field_bytes);

class Segment {
 public:
  /// Prepares memory of Layout::total_bytes(), whatever lies there.
  static void format(std::span<std::byte> memory, const Layout& layout);
  /// The same in parts: what all ranks share, which goes first, and the data of one rank.
  static void format_shared(std::span<std::byte> memory, const Layout& layout);
  static void format_data(std::span<std::byte> memory, const Layout& layout, int rank);

  /// \throws BadData (LS-4012) when the memory was not made by this version for `ranks` ranks:
  /// every field of the header is checked against the bytes there are.
  Segment(std::span<std::byte> memory, int rank, int ranks);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return layout_.ranks(); }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] RankBlock& block(int rank) const { return blocks_[rank]; }
  [[nodiscard]] RankBlock& own() const { return blocks_[rank_]; }
  [[nodiscard]] std::byte* direct(int rank, std::uint64_t sequence) const {
    return data(rank) + (sequence & 1U) * kDirectBytes;
  }
  [[nodiscard]] std::byte* staged_ring(int rank) const { return data(rank) + 2 * kDirectBytes; }
  [[nodiscard]] std::byte* result_ring(int rank) const {
    return staged_ring(rank) + layout_.ring_bytes();
  }

  /// Of messages from one rank to another.
  [[nodiscard]] Mailbox& mailbox(int from, int to) const {
    return *reinterpret_cast<Mailbox*>(mail(from, to));
  }
  [[nodiscard]] std::byte* mail_piece(int from, int to, std::uint64_t piece) const {
    return mail(from, to) + sizeof(Mailbox) + piece % kMailPieces * layout_.mail_piece_bytes();
  }

  /// Makes what was written before visible, then `value`, and wakes who sleeps.
  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) const;
  /// The same for a counter that only `reader` looks at.
  void publish_to(int reader, std::atomic<std::uint64_t>& counter, std::uint64_t value) const;
  /// Sleeps until another rank publishes, at most `limit`. `seen` = bell() before the last look.
  void sleep(std::uint32_t seen, std::chrono::microseconds limit) const;
  /// Announces that this rank is about to sleep; look once more, then sleep() or stay_awake().
  [[nodiscard]] std::uint32_t prepare_sleep() const;
  void stay_awake() const;

  /// Ends the group for all its ranks; the first reason given is the one that counts.
  void abort(std::string_view reason, AbortKind kind = AbortKind::lost) const;
  [[nodiscard]] bool aborted() const { return header_->abort.load(std::memory_order_acquire) != 0; }
  struct End {
    AbortKind kind = AbortKind::lost;
    std::string reason;
  };
  [[nodiscard]] End end() const;  // \pre aborted()
  void wake(int rank) const;

  /// How many CPUs the ranks have together: told by one, once it knows.
  void tell_cpus(int cpus) const { header_->cpus.store(static_cast<std::uint32_t>(cpus)); }
  /// More ranks than those.
  [[nodiscard]] bool crowded() const {
    const std::uint32_t cpus = header_->cpus.load(std::memory_order_relaxed);
    return cpus != 0 && static_cast<std::uint32_t>(ranks()) > cpus;
  }

 private:
  [[nodiscard]] std::byte* data(int rank) const { return base_ + layout_.data_offset(rank); }
  [[nodiscard]] std::byte* mail(int from, int to) const {
    const auto place = static_cast<std::size_t>(to < from ? to : to - 1);
    return data(from) + layout_.mail_offset() + place * layout_.mailbox_bytes();
  }

  std::byte* base_;
  Header* header_;
  RankBlock* blocks_;
  Layout layout_;
  int rank_;
};

}  // namespace lockstep::comm::shm
