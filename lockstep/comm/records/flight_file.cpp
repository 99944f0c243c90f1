#include "lockstep/comm/records/flight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/comm/records/flight_layout.h"

namespace lockstep::comm {
namespace {

using Bytes = std::span<const std::byte>;
constexpr std::size_t kMaxFileBytes =
    flight::kHeaderBytes + std::size_t{flight::kMaxCapacity} * flight::kRecordBytes;
constexpr int kReadings = 4;

template <typename T>
T load(Bytes bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// A text up to its zero byte. What a terminal could take for a command becomes "?".
std::string text(Bytes bytes, std::size_t offset, std::size_t size) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data()) + offset;
  std::string out(begin, strnlen(begin, size));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c == 0x7f; }, '?');
  return out;
}

/// Checks fields and complains about them by name.
class Parser {
 public:
  Parser(Bytes first, Bytes second, const std::string& where)
      : first_(first), second_(second), where_(where) {}

  RankFlight parse() {
    check_frame();
    read_header();
    read_groups();
    for (std::uint64_t i = 0; i < capacity_; ++i) read_slot(i);
    std::sort(flight_.records.begin(), flight_.records.end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    return std::move(flight_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadData({"LS-4021", where_, what,
                   "it is not a flight file of this version: remove it, or watch the run directory "
                   "of the job"});
  }
  void need(bool holds, const char* field) const {
    if (holds) return;
    std::string what = "wrong ";
    fail(what += field);
  }
  [[nodiscard]] std::int64_t not_negative(Bytes bytes, std::size_t offset,
                                          const char* field) const {
    const auto value = load<std::int64_t>(bytes, offset);
    need(value >= 0, field);
    return value;
  }

  void check_frame() {
    using flight::Header;
    if (second_.size() < flight::kHeaderBytes || first_.size() != second_.size()) {
      fail("too short: " + std::to_string(second_.size()) + " bytes");
    }
    need(load<std::uint64_t>(second_, offsetof(Header, magic)) == flight::kMagic, "magic");
    need(load<std::uint32_t>(second_, offsetof(Header, version)) == flight::kVersion, "version");
    need(load<std::uint32_t>(second_, offsetof(Header, header_bytes)) == flight::kHeaderBytes,
         "header size");
    need(load<std::uint32_t>(second_, offsetof(Header, record_bytes)) == flight::kRecordBytes,
         "record size");
    capacity_ = load<std::uint32_t>(second_, offsetof(Header, capacity));
    need(capacity_ >= 1 && capacity_ <= flight::kMaxCapacity, "capacity");
    need(second_.size() == flight::kHeaderBytes + capacity_ * flight::kRecordBytes, "file size");
  }

  void read_header() {
    using flight::Header;
    flight_.job = load<std::uint64_t>(second_, offsetof(Header, job));
    ProcessIdentity& process = flight_.process;
    process.pid = load<std::int64_t>(second_, offsetof(Header, pid));
    need(process.pid > 0 && process.pid <= INT32_MAX, "pid");
    process.start_ticks = not_negative(second_, offsetof(Header, start_ticks), "process start");
    process.pid_namespace = not_negative(second_, offsetof(Header, pid_namespace), "namespace");
    process.host = text(second_, offsetof(Header, host), flight::kHostBytes);
    process.boot_id = text(second_, offsetof(Header, boot_id), flight::kBootBytes);
    const auto rank = load<std::uint32_t>(second_, offsetof(Header, rank));
    const auto world = load<std::uint32_t>(second_, offsetof(Header, world_size));
    need(world >= 1 && world <= flight::kMaxWorldSize && rank < world, "rank or world size");
    flight_.rank = static_cast<int>(rank);
    flight_.world_size = static_cast<int>(world);
    flight_.created_wall_ns = not_negative(second_, offsetof(Header, created_wall_ns), "time");
    flight_.wall_offset_ns = not_negative(second_, offsetof(Header, wall_offset_ns), "offset");
    const auto phase = load<std::uint64_t>(second_, offsetof(Header, phase));
    need((phase & 15U) < kPhases, "phase");
    flight_.phase = static_cast<Phase>(phase & 15U);
    flight_.phase_since_ns = static_cast<std::int64_t>(phase >> 4);
    flight_.heartbeat_ns = not_negative(second_, offsetof(Header, heartbeat), "heartbeat");
    const auto finished = load<std::uint64_t>(second_, offsetof(Header, finished));
    need(finished <= 1, "end");
    flight_.finished = finished == 1;
  }

  void read_groups() {
    const auto count = load<std::uint64_t>(second_, offsetof(flight::Header, group_count));
    need(count <= flight::kMaxGroups, "number of groups");
    for (std::size_t g = 0; g < count; ++g) {
      const std::size_t at = offsetof(flight::Header, groups) + g * sizeof(flight::Group);
      const auto rank = load<std::uint32_t>(second_, at + offsetof(flight::Group, rank));
      const auto size = load<std::uint32_t>(second_, at + offsetof(flight::Group, size));
      need(size >= 1 && size <= flight::kMaxWorldSize && rank < size, "rank or size of a group");
      flight_.groups.push_back(
          {text(second_, at + offsetof(flight::Group, name), flight::kGroupNameBytes),
           static_cast<int>(rank), static_cast<int>(size),
           not_negative(second_, at + offsetof(flight::Group, entered), "count of a group")});
    }
  }

  void read_slot(std::uint64_t slot) {
    const std::size_t at = flight::kHeaderBytes + slot * flight::kRecordBytes;
    const auto version = load<std::uint64_t>(first_, at);
    if (version == 0) return;  // never written
    if ((version & 1U) != 0 || load<std::uint64_t>(second_, at) != version)
      return;  // being written
    read_record(slot, first_.subspan(at + sizeof(flight::Word)));
  }

  void read_record(std::uint64_t slot, Bytes bytes) {
    using Words = flight::RecordWords;
    CollectiveRecord record;
    record.index = not_negative(bytes, offsetof(Words, index), "record number");
    if (record.index == 0) return;  // locked by an update that came after nothing
    need((word(record.index) - 1) % capacity_ == slot, "place of a record");
    const std::int64_t sequence = not_negative(bytes, offsetof(Words, sequence), "sequence");
    record.count = not_negative(bytes, offsetof(Words, count), "count");
    record.bytes = not_negative(bytes, offsetof(Words, bytes), "bytes");
    record.entered_ns = not_negative(bytes, offsetof(Words, entered_ns), "time entered");
    record.started_ns = not_negative(bytes, offsetof(Words, started_ns), "time started");
    record.finished_ns = not_negative(bytes, offsetof(Words, finished_ns), "time finished");
    const auto state = load<std::uint64_t>(bytes, offsetof(Words, state_and_group));
    need((state & 0xffU) < kCollectiveStates, "state of a record");
    record.state = static_cast<CollectiveState>(state & 0xffU);
    record.group = state >> 8 & 0xffU;
    need(record.group < flight_.groups.size(), "group of a record");
    record.message = message_of(state >> 16, sequence);
    if (!record.message) record.sequence = sequence;
    record.op = text(bytes, offsetof(Words, op), sizeof(Words::op));
    record.dtype = text(bytes, offsetof(Words, dtype), sizeof(Words::dtype));
    record.site = text(bytes, offsetof(Words, site), sizeof(Words::site));
    flight_.records.push_back(std::move(record));
  }

  [[nodiscard]] std::optional<MessageEnd> message_of(std::uint64_t word, std::int64_t tag) const {
    const auto kind = static_cast<flight::RecordKind>(word & 0xffU);
    const std::uint64_t peer = word >> 16;
    need((word & 0xffU) < flight::kRecordKinds && (word >> 8 & 0xffU) == 0, "kind of a record");
    if (kind == flight::RecordKind::collective) {
      need(peer == 0, "peer of a collective");
      return std::nullopt;
    }
    need(peer <= flight::kMaxWorldSize, "peer of a message");
    need(tag <= UINT32_MAX, "tag of a message");
    return MessageEnd{.sends = kind == flight::RecordKind::send,
                      .peer = static_cast<int>(peer) - 1,
                      .tag = static_cast<std::int32_t>(static_cast<std::uint32_t>(tag))};
  }

  [[nodiscard]] static std::uint64_t word(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
  }

  Bytes first_;
  Bytes second_;
  const std::string& where_;
  std::uint64_t capacity_ = 0;
  RankFlight flight_;
};

[[noreturn]] void cannot_read(const std::filesystem::path& file, int code) {
  throw EnvironmentFault({"LS-4024", file.string(),
                          "cannot be read: " + std::generic_category().message(code),
                          "check who may read the run directory"});
}

std::vector<std::byte> read_once(const std::filesystem::path& file, int fd, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(file, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

/// Whether a record changed between the two readings.
bool is_moving(Bytes first, Bytes second) {
  for (std::size_t at = flight::kHeaderBytes; at + flight::kRecordBytes <= first.size();
       at += flight::kRecordBytes) {
    const auto version = load<std::uint64_t>(first, at);
    if ((version & 1U) != 0 || version != load<std::uint64_t>(second, at)) return true;
  }
  return false;
}

}  // namespace

RankFlight parse_flight(std::span<const std::byte> first, std::span<const std::byte> second,
                        const std::string& where) {
  return Parser(first, second, where).parse();
}

RankFlight read_flight(const std::filesystem::path& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) cannot_read(file, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) cannot_read(file, errno);
  const auto size = std::min(static_cast<std::size_t>(info.st_size), kMaxFileBytes + 1);
  std::vector<std::byte> first = read_once(file, fd.get(), size);
  std::vector<std::byte> second = read_once(file, fd.get(), size);
  for (int i = 2; i < kReadings && first.size() == second.size() && is_moving(first, second); ++i) {
    first = std::move(second);
    second = read_once(file, fd.get(), size);
  }
  return parse_flight(first, second, file.string());
}

}  // namespace lockstep::comm
