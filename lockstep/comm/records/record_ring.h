// Flight record: the last collectives of one group, for error texts and hang reports.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

enum class CollectiveState : std::uint8_t { issued, completed, failed };

struct CollectiveRecord {
  std::int64_t seq = 0;      // 1 for the first collective of the group; equal on all its ranks
  std::string_view op{};     // "all_reduce": text with static lifetime
  std::string_view dtype{};  // "float32"; empty for a barrier
  std::int64_t count = 0;    // elements
  CollectiveState state = CollectiveState::issued;
  std::int64_t issued_us = 0;  // since the group was made
  std::int64_t ended_us = 0;   // when this rank saw the end; 0 while in flight
};

/// "all_reduce #17 (float32, 1024 elements)"
[[nodiscard]] std::string describe(const CollectiveRecord& record);

/// Keeps the last kCapacity records. Thread-safe.
class RecordRing {
 public:
  static constexpr std::size_t kCapacity = 256;

  /// Notes that this rank entered a collective; returns its sequence number.
  std::int64_t begin(std::string_view op, std::string_view dtype, std::int64_t count);
  /// Notes the end; nothing happens when the record has left the ring or has ended before.
  void end(std::int64_t seq, CollectiveState state);

  [[nodiscard]] std::optional<CollectiveRecord> find(std::int64_t seq) const;
  /// The completed collective with the highest sequence number.
  [[nodiscard]] std::optional<CollectiveRecord> last_completed() const;
  /// Oldest first.
  [[nodiscard]] std::vector<CollectiveRecord> records() const;

 private:
  [[nodiscard]] std::int64_t now_us() const;
  [[nodiscard]] const CollectiveRecord& slot(std::int64_t seq) const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::array<CollectiveRecord, kCapacity> ring_{};
  std::int64_t last_seq_ = 0;
  std::optional<CollectiveRecord> last_completed_;
};

}  // namespace lockstep::comm
