#include "lockstep/comm/records/flight_words.h"

#include <algorithm>

#include "lockstep/base/units.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kNamedRanks = 8;  // a list of thousands helps nobody

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamedRanks); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamedRanks) {
    text += " and " + std::to_string(ranks.size() - kNamedRanks) + " more";
  }
  return text;
}

std::string collective_text(const CollectiveRecord& record, const std::string& group) {
  std::string text = title(record) + " of group " + group;
  return record.site.empty() ? text : text + " (" + record.site + ")";
}

std::string phase_text(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "start-up";
    case Phase::data:
      return "data wait";
    case Phase::optimizer:
      return "the optimizer";
    case Phase::eval:
      return "evaluation";
    case Phase::checkpoint:
      return "a checkpoint";
    case Phase::forward:
    case Phase::backward:
    case Phase::sync:
      break;
  }
  return std::string(name(phase));
}

std::string process_text(const RankView& view) {
  const std::string process = "process " + std::to_string(view.flight.process.pid);
  if (view.process.state == ProcessState::gone) return "has ended (" + process + " is gone)";
  return "is stopped (" + process + ", state " + std::string(1, view.process.letter) + ")";
}

std::int64_t last_seen_ns(const RankView& view) {
  return view.process.state == ProcessState::gone ? view.flight.heartbeat_ns : view.now_ns;
}

double waited_s(const RankView& view, const CollectiveRecord& record) {
  const std::int64_t end = record.in_flight() ? last_seen_ns(view) : record.finished_ns;
  return static_cast<double>(end - record.entered_ns) * 1e-9;
}

std::string duration_text(double seconds) { return format_duration(std::max(seconds, 0.0)); }

}  // namespace lockstep::comm
