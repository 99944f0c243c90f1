// What a rank's flight recorder holds, as values: who the rank is, what it does, and its last
// collectives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// What a rank is doing between and around its collectives.
enum class Phase : std::uint8_t {
  start,
  data,
  forward,
  backward,
  sync,
  optimizer,
  eval,
  checkpoint,
};
inline constexpr std::size_t kPhases = 8;

enum class CollectiveState : std::uint8_t { entered, started, completed, failed };
inline constexpr std::size_t kCollectiveStates = 4;

[[nodiscard]] std::string_view name(Phase phase);            // "data"
[[nodiscard]] std::string_view name(CollectiveState state);  // "entered"

/// The other end of a message between two ranks.
struct MessageEnd {
  bool sends = false;  // this rank; else it receives
  int peer = -1;       // within the group; -1 = whoever sends
  int tag = 0;
};

/// One collective, or one end of a message, as one rank saw it. Times are CLOCK_MONOTONIC of the
/// rank's host; 0 = not yet.
struct CollectiveRecord {
  std::int64_t index = 0;     // 1 for the first collective of the rank, over all groups
  std::size_t group = 0;      // index into RankFlight::groups
  std::int64_t sequence = 0;  // 1 for the first of the group; equal on all its ranks; 0 = a message
  std::string op{};           // "all_reduce"
  std::string dtype{};        // "float32"; empty for a barrier
  std::string site{};         // what for: "bucket 4: layer3.0.conv1.weight .."; may be empty
  std::int64_t count = 0;     // elements
  std::int64_t bytes = 0;
  CollectiveState state = CollectiveState::entered;
  std::int64_t entered_ns = 0;
  std::int64_t started_ns = 0;          // handed to the backend
  std::int64_t finished_ns = 0;         // completed or failed
  std::optional<MessageEnd> message{};  // none = a collective

  [[nodiscard]] bool in_flight() const {
    return state == CollectiveState::entered || state == CollectiveState::started;
  }
};

/// "all_reduce #17", "recv from rank 0 (tag 7)"
[[nodiscard]] std::string title(const CollectiveRecord& record);
/// "all_reduce #17 (float32, 1024 elements)"
[[nodiscard]] std::string describe(const CollectiveRecord& record);

struct FlightGroup {
  std::string name{};        // unique in the job: "world"
  int rank = 0;              // within the group
  int size = 1;              // its ranks
  std::int64_t entered = 0;  // sequence of the last collective this rank entered
};

/// A process so that it can be found again: the pid alone may have gone to somebody else.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;    // since boot: /proc/<pid>/stat
  std::int64_t pid_namespace = 0;  // inode of its pid namespace
  std::string boot_id{};           // of the running kernel: tells hosts apart
  std::string host{};              // name, for people
};

struct RankFlight {
  std::uint64_t job = 0;  // equal on all ranks of one job, another in the next
  int rank = 0;
  int world_size = 1;
  ProcessIdentity process{};
  std::int64_t created_wall_ns = 0;
  std::int64_t wall_offset_ns = 0;  // wall clock minus CLOCK_MONOTONIC of its host
  bool finished = false;            // the rank came to its end as planned
  Phase phase = Phase::start;
  std::int64_t phase_since_ns = 0;
  std::int64_t heartbeat_ns = 0;  // the last sign of life
  std::vector<FlightGroup> groups{};
  std::vector<CollectiveRecord> records{};  // oldest first
};

}  // namespace lockstep::comm
