// The flight recorder: a rank's last 4096 collectives over all its groups, and what it does now.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/comm/records/flight_layout.h"
#include "lockstep/comm/records/flight_memory.h"
#include "lockstep/comm/records/flight_values.h"

namespace lockstep::comm {

/// One collective or message that was begun; index 0 = it is not recorded.
struct Ticket {
  std::uint64_t index = 0;    // among all of the rank
  std::int64_t sequence = 0;  // in the group, from 1; 0 = a message
};

/// Thread-safe. A record costs tens of nanoseconds and takes no lock that a reader holds; readers
/// in other processes never see half a record. The records begin in anonymous memory; after
/// persist() they are a file that outlives the process, kill -9 included.
class FlightRecorder {
 public:
  using GroupId = std::size_t;

  /// \param rank of the job.
  FlightRecorder(int rank, int world_size);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();

  /// Moves to the file; what was recorded goes along, and from now on the heart beats. Call it
  /// while no collective is in flight. \param job equal on all ranks of the job, different from
  /// that of jobs before. \throws EnvironmentFault (LS-4023): recording goes on in memory.
  void persist(const std::filesystem::path& file, std::uint64_t job);
  /// Empty before persist().
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

  /// A group this rank belongs to; the same name again goes on counting. Beyond kMaxGroups the
  /// collectives of a group are not recorded.
  [[nodiscard]] GroupId add_group(std::string_view name, int rank, int size);

  /// This rank enters a collective. Texts too long for their field are cut.
  [[nodiscard]] Ticket begin(GroupId group, std::string_view op, std::string_view dtype,
                             std::int64_t count, std::int64_t bytes, std::string_view site);
  /// This rank begins to send or to receive: "send" or "recv". Counts as none of the group's
  /// collectives.
  [[nodiscard]] Ticket begin_message(GroupId group, const MessageEnd& end, std::string_view dtype,
                                     std::int64_t count, std::int64_t bytes, std::string_view site);
  /// The backend has it.
  void started(Ticket ticket);
  /// The first end of a record stands; one that has left the ring is forgotten.
  void ended(Ticket ticket, bool ok);
  /// When it ended well; 0 = it has not, or its record has left the ring.
  [[nodiscard]] std::int64_t ended_ns(Ticket ticket) const;

  void set_phase(Phase phase);
  /// The rank's work ended as planned: that its process goes is no fault.
  void finish();

  /// What it holds now.
  [[nodiscard]] RankFlight snapshot() const;

 private:
  [[nodiscard]] flight::Header& header() const;
  [[nodiscard]] flight::Slot& slot_of(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t add(flight::RecordWords& record, std::string_view op,
                                  std::string_view dtype, std::string_view site);
  void update(Ticket ticket, CollectiveState state, std::size_t time_word);
  void beat_until_stopped();

  FlightMemory memory_;
  std::filesystem::path file_;
  std::mutex groups_;
  std::mutex heart_mutex_;
  std::condition_variable heart_wakes_;
  bool stopping_ = false;
  std::thread heart_;
};

/// Nothing without a recorder.
inline void set_phase(FlightRecorder* recorder, Phase phase) {
  if (recorder != nullptr) recorder->set_phase(phase);
}

/// CLOCK_MONOTONIC now: the time of every record, comparable between the processes of a host.
[[nodiscard]] std::int64_t monotonic_ns();
/// CLOCK_REALTIME now.
[[nodiscard]] std::int64_t wall_ns();

}  // namespace lockstep::comm
