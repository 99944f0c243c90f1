// What lies where in the shared memory of one group. Every field that another process may write is
// checked before it is used; nothing in here is a pointer.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::comm::shm {

inline constexpr std::uint32_t kMagic = 0x4c534d33;  // "LSM3"
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kPage = 4096;
inline constexpr int kMaxRanks = 1024;
inline constexpr std::size_t kInlineBytes = 32;   // payload in the slot itself
inline constexpr std::size_t kSiteBytes = 64;     // call site, cut off
inline constexpr std::size_t kAbortBytes = 1024;  // text of the reason
inline constexpr std::size_t kDirectBytes = 64 * 1024;
inline constexpr std::size_t kMailPieces = 2;  // of a message between two ranks, on their way

/// Why a group is over.
enum class AbortKind : std::uint32_t {
  lost,          // a rank ended, is stopped, left or does not come
  disagreement,  // ranks entered different collectives
};

/// What every rank must agree on before one byte of the others is used.
struct Fingerprint {
  std::uint64_t kind = 0;   // collective, element type, reduction, root: see fingerprint.h
  std::uint64_t count = 0;  // elements
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// A rank's entry into one collective. Two of them take turns: a rank that enters collective s has
/// seen everybody enter s - 1, so everybody is done with s - 2.
struct alignas(kLine) Slot {
  std::atomic<std::uint64_t> sequence;  // from 1; written last
  Fingerprint fingerprint;
  std::uint64_t stream_bytes;  // the most that this rank sends to one other, of uneven parts
  std::byte payload[kInlineBytes];
  char site[kSiteBytes];
};
static_assert(sizeof(Slot) == 2 * kLine);

struct alignas(kLine) Counter {
  std::atomic<std::uint64_t> value;
};

/// Written by one rank, read by all.
struct alignas(kLine) RankBlock {
  Slot slots[2];
  Counter staged;    // pieces of its terms that others may read
  Counter reduced;   // pieces of its results that others may read
  Counter consumed;  // pieces of others' results it has read
  Counter unread;    // the step in which it could not read another rank's own memory

  alignas(kLine) std::atomic<std::uint32_t> bell;  // futex: changes when something may have come
  std::atomic<std::uint32_t> sleeping;             // 1 = wake me

  alignas(kLine) std::atomic<std::uint32_t> life;  // robust futex: thread id of the living
  std::atomic<std::uint32_t> closed;               // left on purpose
  std::atomic<std::uint32_t> withdrawn;            // its buffers are no longer to be read
  std::atomic<std::int64_t> process;
  std::atomic<std::int64_t> heartbeat_ns;  // CLOCK_MONOTONIC, the same for all of a host

  alignas(kLine) std::atomic<std::uint64_t> proof_address;  // in its own memory, of a word that
  std::atomic<std::uint64_t> proof;                         // says this: whoever finds it can read
};

/// In front of each piece of a message from one rank to another.
struct alignas(kLine) MailStamp {
  std::uint64_t message_bytes;
  std::uint64_t piece_bytes;
  std::uint32_t type;  // ElementType
  std::int32_t tag;
  std::uint32_t is_first;  // piece of its message
};

/// A ring of pieces for one ordered pair of ranks; the pieces stand behind it.
struct alignas(kPage) Mailbox {
  Counter posted;  // pieces, by the sender
  Counter taken;   // pieces, by the receiver
  MailStamp stamps[kMailPieces];
};

struct alignas(kPage) Header {
  std::atomic<std::uint32_t> magic;  // written last
  std::uint32_t ranks;
  std::uint64_t ring_bytes;   // of each of a rank's two rings
  std::uint64_t piece_bytes;  // what moves at once
  std::uint64_t total_bytes;
  std::atomic<std::uint32_t> cpus;  // that all ranks have together; 0 = not known yet

  alignas(kLine) std::atomic<std::uint32_t> abort;  // 0, then 1 while the text is written, then 2
  std::atomic<std::uint32_t> abort_kind;            // AbortKind, written before 2
  char abort_text[kAbortBytes];
};

/// Offsets and sizes that follow from ranks and the size of a piece.
class Layout {
 public:
  /// Both in bytes and multiples of a page. \param ring_bytes at least ranks - 1 pieces.
  Layout(int ranks, std::size_t ring_bytes, std::size_t piece_bytes)
      : ranks_(ranks), ring_bytes_(ring_bytes), piece_bytes_(piece_bytes) {}

  [[nodiscard]] std::size_t block_offset(int rank) const {
    return sizeof(Header) + static_cast<std::size_t>(rank) * sizeof(RankBlock);
  }
  /// Two buffers for small messages, the ring of terms, the ring of results, and a mailbox for each
  /// other rank.
  [[nodiscard]] std::size_t data_offset(int rank) const {
    const std::size_t blocks = block_offset(ranks_);
    return (blocks + kPage - 1) / kPage * kPage + static_cast<std::size_t>(rank) * data_bytes();
  }
  [[nodiscard]] std::size_t data_bytes() const {
    return mail_offset() + static_cast<std::size_t>(ranks_ - 1) * mailbox_bytes();
  }
  /// In a rank's data.
  [[nodiscard]] std::size_t mail_offset() const { return 2 * kDirectBytes + 2 * ring_bytes_; }
  [[nodiscard]] std::size_t mailbox_bytes() const {
    return sizeof(Mailbox) + kMailPieces * mail_piece_bytes();
  }
  /// There are ranks^2 mailboxes: the more ranks, the smaller the pieces.
  [[nodiscard]] std::size_t mail_piece_bytes() const {
    if (ranks_ <= 8) return 8 * kPage;
    return ranks_ <= 32 ? 2 * kPage : kPage;
  }
  [[nodiscard]] std::size_t total_bytes() const { return data_offset(ranks_); }
  [[nodiscard]] std::size_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }
  /// A step stages one piece for each other rank; so many steps fit into a ring.
  [[nodiscard]] std::size_t step_bytes() const {
    return static_cast<std::size_t>(ranks_ - 1) * piece_bytes_;
  }
  [[nodiscard]] std::uint64_t ring_steps() const {
    return step_bytes() == 0 ? 1 : ring_bytes_ / step_bytes();
  }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  int ranks_;
  std::size_t ring_bytes_;
  std::size_t piece_bytes_;
};

}  // namespace lockstep::comm::shm
