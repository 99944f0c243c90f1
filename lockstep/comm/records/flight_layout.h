// Where everything lies in a flight file (docs/formats/flight.md). All of it is little-endian; what
// changes while others read is an atomic word.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lockstep::comm::flight {

static_assert(std::endian::native == std::endian::little, "the file is the memory");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

using Word = std::atomic<std::uint64_t>;

inline constexpr std::uint64_t kMagic = 0x544847494c46534cULL;  // "LSFLIGHT"
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kCapacity = 4096;         // records of a recorder
inline constexpr std::uint32_t kMaxCapacity = 1U << 16;  // that a reader accepts
inline constexpr std::uint32_t kMaxWorldSize = 1U << 16;
inline constexpr std::size_t kHostBytes = 64;
inline constexpr std::size_t kBootBytes = 40;
inline constexpr std::size_t kGroupNameBytes = 40;
inline constexpr std::size_t kMaxGroups = 56;

/// Strings end with a zero byte; the rest of their field is zero.
struct Group {
  std::array<char, kGroupNameBytes> name;
  std::uint32_t rank;
  std::uint32_t size;
  Word entered;  // sequence of the last collective entered
  std::uint64_t reserved;
};
static_assert(sizeof(Group) == 64);

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t record_bytes;
  std::uint32_t capacity;
  std::uint64_t job;
  std::int64_t pid;
  std::int64_t start_ticks;
  std::int64_t pid_namespace;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::int64_t created_wall_ns;
  std::int64_t wall_offset_ns;
  std::array<char, kHostBytes> host;
  std::array<char, kBootBytes> boot_id;
  std::uint64_t reserved;
  // From here on written while others read.
  Word next;       // records begun
  Word phase;      // since when (ns) << 4 | phase: one word, so that no reader sees half of it
  Word heartbeat;  // ns
  Word finished;   // 0 or 1
  std::array<std::uint64_t, 4> reserved_live;
  Word group_count;  // entries below are whole up to here
  std::array<std::uint64_t, 7> reserved_groups;
  std::array<Group, kMaxGroups> groups;
  std::array<std::uint64_t, 24> reserved_end;
};
inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) == kHeaderBytes);
static_assert(offsetof(Header, next) == 192 && offsetof(Header, groups) == 320);

enum class RecordKind : std::uint8_t { collective, send, receive };
inline constexpr std::uint64_t kRecordKinds = 3;

/// A record as words, so that each can be written and read on its own.
struct RecordWords {
  std::uint64_t index;
  std::uint64_t sequence;  // of a message: its tag
  std::uint64_t count;
  std::uint64_t bytes;
  std::uint64_t entered_ns;
  std::uint64_t started_ns;
  std::uint64_t finished_ns;
  std::uint64_t state_and_group;  // from bit 0 state, 8 group, 16 RecordKind, 32 peer + 1
  std::array<char, 24> op;
  std::array<char, 16> dtype;
  std::array<char, 80> site;
};
inline constexpr std::size_t kRecordWords = sizeof(RecordWords) / sizeof(std::uint64_t);
inline constexpr std::size_t kStartedWord = offsetof(RecordWords, started_ns) / 8;
inline constexpr std::size_t kFinishedWord = offsetof(RecordWords, finished_ns) / 8;
inline constexpr std::size_t kStateWord = offsetof(RecordWords, state_and_group) / 8;

/// `version` is odd while somebody writes. Record i (from 1) lies in slot (i - 1) % capacity.
struct Slot {
  Word version;
  std::array<Word, kRecordWords> words;
};
inline constexpr std::size_t kRecordBytes = 192;
static_assert(sizeof(Slot) == kRecordBytes);

inline constexpr std::size_t kFileBytes = kHeaderBytes + kCapacity * kRecordBytes;

}  // namespace lockstep::comm::flight
