// The words that verdicts are made of.
#pragma once
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_verdict.h"

namespace lockstep::comm {

/// "rank 1", "ranks 0, 2, 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 24 more".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);
/// "rank 1", "ranks 0, 1 and 3": all of them.
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// "all_reduce #812 of group dp (bucket 4: conv1.weight ..)".
[[nodiscard]] std::string collective_text(const CollectiveRecord& record, const std::string& group);

/// "data wait", "forward", "the optimizer".
[[nodiscard]] std::string phase_text(Phase phase);

/// "is stopped (process 4711, state T)", "has ended (process 4711 is gone)".
[[nodiscard]] std::string process_text(const RankView& view);

/// Now, or for a process that is gone, when it last gave a sign of life.
[[nodiscard]] std::int64_t last_seen_ns(const RankView& view);

/// Seconds a rank spent in a collective that did not complete, so far or until it gave up.
[[nodiscard]] double waited_s(const RankView& view, const CollectiveRecord& record);

/// "14.8 s" for any number of seconds, also a negative one (clocks of two hosts).
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace lockstep::comm
