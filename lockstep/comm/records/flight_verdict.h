// Who keeps whom waiting: one plain sentence from the flight records of all ranks of a job.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/records/flight_values.h"
#include "lockstep/comm/records/process_state.h"

namespace lockstep::comm {

/// One rank as it was looked at.
struct RankView {
  RankFlight flight;
  ProcessLook process;
  std::int64_t now_ns = 0;  // in the clock of the rank's own records
};

enum class VerdictKind : std::uint8_t {
  healthy,   // all ranks move, or wait for less than the patience
  finished,  // all ranks came to their end
  missing,   // ranks have not entered a collective that others wait in, or not sent a message
  ended,     // a rank's process is gone
  stopped,   // a rank's process is stopped (state T)
  mismatch,  // ranks entered different collectives where they must enter the same
  inside,    // all entered one collective, or both ends a message, and it does not end
  absent,    // a rank that others wait for left no flight record
};

[[nodiscard]] std::string_view name(VerdictKind kind);  // "missing"

struct Verdict {
  VerdictKind kind = VerdictKind::healthy;
  std::vector<int> ranks{};  // whom it blames; of the job, ascending
  std::string text{};        // "rank 1 has not entered all_reduce #812 of group dp (...); ..."
  std::string group{};       // of the collective it is about; empty = none
  std::string op{};
  std::int64_t sequence = 0;
  std::string site{};

  [[nodiscard]] bool is_wrong() const {
    return kind != VerdictKind::healthy && kind != VerdictKind::finished;
  }
};

struct VerdictOptions {
  double patience_s = 5;  // waits shorter than this are the ordinary course of things
};

/// A pure function. Finds the first collective that some ranks entered and others did not, or that
/// does not end; where its missing ranks wait in another group or for a message themselves, that
/// one.
/// A stopped or ended process is wrong at once. \param views one per rank that has a record; ranks
/// up to their world size that have none are absent.
[[nodiscard]] Verdict judge(const std::vector<RankView>& views, const VerdictOptions& options = {});

}  // namespace lockstep::comm
