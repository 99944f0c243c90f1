#include "lockstep/comm/records/flight_recorder.h"

#include <time.h>

#include <bit>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "lockstep/comm/records/flight_file.h"
#include "lockstep/comm/records/process_state.h"

namespace lockstep::comm {
namespace {

using namespace std::literals;
using flight::Word;
constexpr auto kBeat = 500ms;
constexpr int kSpins = 64;
constexpr int kTries = 10'000;  // a writer that was put aside comes back long before

std::int64_t clock_ns(clockid_t clock) {
  struct timespec time {};
  ::clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::uint64_t word(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Cuts; the rest of the field is zero.
template <std::size_t n>
void put(std::array<char, n>& field, std::string_view text) {
  text.copy(field.data(), n - 1);
}

std::uint64_t state_word(CollectiveState state, std::size_t rest) {
  return static_cast<std::uint64_t>(state) | static_cast<std::uint64_t>(rest) << 8;
}

/// What follows the state: the group, and of a message its direction and the other rank.
std::uint64_t place_word(std::size_t group, const MessageEnd* end) {
  if (end == nullptr) return group;
  const auto kind = end->sends ? flight::RecordKind::send : flight::RecordKind::receive;
  return group | static_cast<std::uint64_t>(kind) << 8 |
         static_cast<std::uint64_t>(end->peer + 1) << 24;
}

/// The right to write a slot, by making its version odd. Readers never hold it.
class SlotWriter {
 public:
  explicit SlotWriter(flight::Slot& slot) : slot_(slot) {
    for (int i = 0; i < kTries; ++i) {
      version_ = slot.version.load(std::memory_order_relaxed);
      if ((version_ & 1U) == 0 &&
          slot.version.compare_exchange_weak(version_, version_ + 1, std::memory_order_acquire)) {
        owns_ = true;
        return;
      }
      if (i >= kSpins) std::this_thread::yield();
    }
  }
  SlotWriter(const SlotWriter&) = delete;
  SlotWriter& operator=(const SlotWriter&) = delete;
  ~SlotWriter() {
    if (owns_) slot_.version.store(version_ + 2, std::memory_order_release);
  }

  [[nodiscard]] bool owns() const { return owns_; }
  [[nodiscard]] std::uint64_t get(std::size_t i) const {
    return slot_.words[i].load(std::memory_order_relaxed);
  }
  /// Release: whoever sees the word sees the odd version before it. Fences would do the same, but
  /// ThreadSanitizer does not know them.
  void set(std::size_t i, std::uint64_t value) {
    slot_.words[i].store(value, std::memory_order_release);
  }

 private:
  flight::Slot& slot_;
  std::uint64_t version_ = 0;
  bool owns_ = false;
};

/// A copy of a slot; its version is odd when it changed meanwhile.
void copy_slot(const flight::Slot& slot, std::byte* into) {
  std::array<std::uint64_t, flight::kRecordWords + 1> copy{};
  copy[0] = slot.version.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < flight::kRecordWords; ++i) {
    copy[i + 1] = slot.words[i].load(std::memory_order_acquire);
  }
  if (slot.version.load(std::memory_order_relaxed) != copy[0]) copy[0] |= 1U;
  std::memcpy(into, copy.data(), sizeof copy);
}

/// As bytes of the file. Words that others write are loaded, not copied.
void copy_header(const flight::Header& from, flight::Header& to) {
  constexpr std::size_t kLive = offsetof(flight::Header, next);
  std::memcpy(static_cast<void*>(&to), &from, kLive);
  to.next = from.next.load();
  to.phase = from.phase.load();
  to.heartbeat = from.heartbeat.load();
  to.finished = from.finished.load();
  const std::uint64_t groups = from.group_count.load(std::memory_order_acquire);
  to.group_count = groups;
  for (std::size_t g = 0; g < groups; ++g) {
    to.groups[g].name = from.groups[g].name;
    to.groups[g].rank = from.groups[g].rank;
    to.groups[g].size = from.groups[g].size;
    to.groups[g].entered = from.groups[g].entered.load();
  }
}

}  // namespace

std::int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
std::int64_t wall_ns() { return clock_ns(CLOCK_REALTIME); }

FlightRecorder::FlightRecorder(int rank, int world_size) : memory_(flight::kFileBytes) {
  const ProcessIdentity own = own_identity();
  flight::Header& h = header();
  h.magic = flight::kMagic;
  h.version = flight::kVersion;
  h.header_bytes = flight::kHeaderBytes;
  h.record_bytes = flight::kRecordBytes;
  h.capacity = flight::kCapacity;
  h.pid = own.pid;
  h.start_ticks = own.start_ticks;
  h.pid_namespace = own.pid_namespace;
  h.rank = static_cast<std::uint32_t>(rank);
  h.world_size = static_cast<std::uint32_t>(world_size);
  h.created_wall_ns = wall_ns();
  h.wall_offset_ns = h.created_wall_ns - monotonic_ns();
  put(h.host, own.host);
  put(h.boot_id, own.boot_id);
  set_phase(Phase::start);
}

FlightRecorder::~FlightRecorder() {
  if (!heart_.joinable()) return;
  {
    const std::lock_guard lock(heart_mutex_);
    stopping_ = true;
  }
  heart_wakes_.notify_all();
  heart_.join();
}

flight::Header& FlightRecorder::header() const {
  return *std::launder(reinterpret_cast<flight::Header*>(memory_.data()));
}

flight::Slot& FlightRecorder::slot_of(std::uint64_t index) const {
  auto* slots =
      std::launder(reinterpret_cast<flight::Slot*>(memory_.data() + flight::kHeaderBytes));
  return slots[(index - 1) % flight::kCapacity];
}

void FlightRecorder::persist(const std::filesystem::path& file, std::uint64_t job) {
  header().job = job;
  memory_.move_to(file);
  file_ = file;
  if (!heart_.joinable()) heart_ = std::thread([this] { beat_until_stopped(); });
}

void FlightRecorder::beat_until_stopped() {
  std::unique_lock lock(heart_mutex_);
  while (!heart_wakes_.wait_for(lock, kBeat, [this] { return stopping_; })) {
    header().heartbeat.store(word(monotonic_ns()), std::memory_order_relaxed);
  }
}

FlightRecorder::GroupId FlightRecorder::add_group(std::string_view name, int rank, int size) {
  const std::lock_guard lock(groups_);
  flight::Header& h = header();
  std::array<char, flight::kGroupNameBytes> cut{};
  put(cut, name);
  const std::size_t count = h.group_count.load(std::memory_order_relaxed);
  for (std::size_t g = 0; g < count; ++g) {
    if (h.groups[g].name == cut) return g;
  }
  if (count == flight::kMaxGroups) return count;
  h.groups[count].name = cut;
  h.groups[count].rank = static_cast<std::uint32_t>(rank);
  h.groups[count].size = static_cast<std::uint32_t>(size);
  h.group_count.store(count + 1, std::memory_order_release);
  return count;
}

Ticket FlightRecorder::begin(GroupId group, std::string_view op, std::string_view dtype,
                             std::int64_t count, std::int64_t bytes, std::string_view site) {
  if (group >= flight::kMaxGroups) return {};
  flight::RecordWords record{};
  record.sequence = header().groups[group].entered.fetch_add(1, std::memory_order_relaxed) + 1;
  record.count = word(count);
  record.bytes = word(bytes);
  record.state_and_group = state_word(CollectiveState::entered, place_word(group, nullptr));
  return {add(record, op, dtype, site), static_cast<std::int64_t>(record.sequence)};
}

Ticket FlightRecorder::begin_message(GroupId group, const MessageEnd& end, std::string_view dtype,
                                     std::int64_t count, std::int64_t bytes,
                                     std::string_view site) {
  if (group >= flight::kMaxGroups) return {};
  flight::RecordWords record{};
  record.sequence = static_cast<std::uint32_t>(end.tag);
  record.count = word(count);
  record.bytes = word(bytes);
  record.state_and_group = state_word(CollectiveState::entered, place_word(group, &end));
  return {add(record, end.sends ? "send" : "recv", dtype, site), 0};
}

/// \returns its index; 0 when its place is taken by a writer that was put aside.
std::uint64_t FlightRecorder::add(flight::RecordWords& record, std::string_view op,
                                  std::string_view dtype, std::string_view site) {
  flight::Header& h = header();
  record.index = h.next.fetch_add(1, std::memory_order_relaxed) + 1;
  record.entered_ns = word(monotonic_ns());
  put(record.op, op);
  put(record.dtype, dtype);
  put(record.site, site);
  h.heartbeat.store(record.entered_ns, std::memory_order_relaxed);
  SlotWriter writer(slot_of(record.index));
  if (!writer.owns()) return 0;
  const auto words = std::bit_cast<std::array<std::uint64_t, flight::kRecordWords>>(record);
  for (std::size_t i = 0; i < words.size(); ++i) writer.set(i, words[i]);
  return record.index;
}

void FlightRecorder::started(Ticket ticket) {
  update(ticket, CollectiveState::started, flight::kStartedWord);
}

void FlightRecorder::ended(Ticket ticket, bool ok) {
  update(ticket, ok ? CollectiveState::completed : CollectiveState::failed, flight::kFinishedWord);
}

std::int64_t FlightRecorder::ended_ns(Ticket ticket) const {
  if (ticket.index == 0) return 0;
  const flight::Slot& slot = slot_of(ticket.index);
  const std::uint64_t version = slot.version.load(std::memory_order_acquire);
  const std::uint64_t index = slot.words[0].load(std::memory_order_acquire);
  const std::uint64_t state = slot.words[flight::kStateWord].load(std::memory_order_acquire);
  const std::uint64_t ended = slot.words[flight::kFinishedWord].load(std::memory_order_acquire);
  const bool is_whole = (version & 1U) == 0 && slot.version.load() == version;
  const bool has_ended = static_cast<CollectiveState>(state & 0xffU) == CollectiveState::completed;
  return is_whole && index == ticket.index && has_ended ? static_cast<std::int64_t>(ended) : 0;
}

void FlightRecorder::update(Ticket ticket, CollectiveState state, std::size_t time_word) {
  if (ticket.index == 0) return;
  const std::uint64_t now = word(monotonic_ns());
  header().heartbeat.store(now, std::memory_order_relaxed);
  SlotWriter writer(slot_of(ticket.index));
  if (!writer.owns() || writer.get(0) != ticket.index) return;
  const std::uint64_t before = writer.get(flight::kStateWord);
  const auto old_state = static_cast<CollectiveState>(before & 0xffU);
  if (old_state >= CollectiveState::completed || old_state >= state) return;
  writer.set(time_word, now);
  writer.set(flight::kStateWord, state_word(state, before >> 8));
}

void FlightRecorder::set_phase(Phase phase) {
  const std::uint64_t now = word(monotonic_ns());
  header().phase.store(now << 4 | static_cast<std::uint64_t>(phase), std::memory_order_relaxed);
  header().heartbeat.store(now, std::memory_order_relaxed);
}

void FlightRecorder::finish() { header().finished.store(1, std::memory_order_relaxed); }

RankFlight FlightRecorder::snapshot() const {
  std::vector<std::byte> bytes(flight::kFileBytes);
  for (std::uint64_t i = 1; i <= flight::kCapacity; ++i) {
    copy_slot(slot_of(i), bytes.data() + flight::kHeaderBytes + (i - 1) * flight::kRecordBytes);
  }
  copy_header(header(), *std::launder(reinterpret_cast<flight::Header*>(bytes.data())));
  return parse_flight(bytes, bytes, "this process");
}

}  // namespace lockstep::comm
