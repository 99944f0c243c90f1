#include "lockstep/launch/verdict.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/launch/launch_values.h"

namespace lockstep::launch {
namespace {

/// Codes that a worker of ours returns on purpose; any other is just a failure.
bool is_contract_code(int code) {
  constexpr Exit kPassedOn[] = {Exit::usage,     Exit::environment, Exit::bad_data,
                                Exit::peer_lost, Exit::bug,         Exit::requeue};
  return std::any_of(std::begin(kPassedOn), std::end(kPassedOn),
                     [&](Exit exit) { return code == static_cast<int>(exit); });
}

/// "a peer was lost" and "stopped with the state saved" are never the cause.
bool is_consequence(const RankEnd& end, bool ours) {
  return end.stopped_by_us ||
         (ours && (has_exit(end, Exit::peer_lost) || has_exit(end, Exit::requeue)));
}

/// \param requested then a rank that lost a peer lost it to the stop, and says nothing.
std::optional<RankEnd> find_first_failure(const std::vector<RankEnd>& ends, bool requested,
                                          bool ours) {
  const auto cause = std::find_if(ends.begin(), ends.end(), [&](const RankEnd& end) {
    return failed(end) && !is_consequence(end, ours);
  });
  if (cause != ends.end()) return *cause;
  const bool saved = ours && std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) {
                       return has_exit(end, Exit::requeue);
                     });
  const auto survivor = std::find_if(ends.begin(), ends.end(), [&](const RankEnd& end) {
    return ours && has_exit(end, Exit::peer_lost) && !end.stopped_by_us;
  });
  const bool by_the_stop =
      requested &&
      std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.stopped_by_us; });
  if (survivor == ends.end() || saved || by_the_stop) return std::nullopt;
  return *survivor;
}

Exit exit_of(const LocalJobResult& result, bool ours) {
  if (result.first_failure.has_value()) {
    return exit_for(result.first_failure->exit_code, result.first_failure->signal, ours);
  }
  const auto any = [&](auto test) {
    return std::any_of(result.ends.begin(), result.ends.end(), test);
  };
  if (ours && any([](const RankEnd& end) { return has_exit(end, Exit::requeue); }))
    return Exit::requeue;
  return any(failed) ? Exit::failed : Exit::ok;
}

int urgency(const RankEnd& end, bool ours) {
  if (end.signal != 0) return 0;
  if (!failed(end)) return 3;
  return ours && has_exit(end, Exit::peer_lost) ? 2 : 1;
}

std::string meaning(int code) {
  switch (static_cast<Exit>(code)) {
    case Exit::usage:
      return " (usage or configuration)";
    case Exit::environment:
      return " (the machine is at fault)";
    case Exit::bad_data:
      return " (bad input data)";
    case Exit::peer_lost:
      return " (a peer was lost)";
    case Exit::bug:
      return " (a bug of lockstep)";
    case Exit::requeue:
      return " (stopped on request, state saved)";
    default:
      return "";
  }
}

std::string end_text(const RankEnd& end) {
  return "rank " + std::to_string(end.rank) + " " + how_ended(end, true) + " after " +
         format_duration(end.seconds) + " (pid " + std::to_string(end.pid) + ")";
}

std::string indented(std::string lines, const std::string& margin) {
  while (lines.ends_with('\n')) lines.pop_back();
  std::string text = margin;
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += margin;
  }
  return text + "\n";
}

std::string first_failure_text(const RankEnd& first, std::size_t ranks) {
  std::string text = end_text(first) + (ranks > 1 ? "; that ended the job\n" : "\n");
  if (!first.hint.empty()) text += "  " + first.hint + "\n";
  if (first.last_stderr.empty()) return text + "  it printed nothing on standard error\n";
  return text + "  its last lines:\n" + indented(first.last_stderr, "    | ");
}

}  // namespace

std::string how_ended(const RankEnd& end, bool ours) {
  if (end.frozen) return "was found stopped (state T, as SIGSTOP leaves it) and was killed";
  if (end.signal != 0) {
    return (end.stopped_by_us ? "was stopped by " : "was killed by ") + signal_name(end.signal);
  }
  return "ended with exit code " + std::to_string(end.exit_code) +
         (ours ? meaning(end.exit_code) : "");
}

Exit exit_for(int exit_code, int signal, bool ours) {
  const bool own_code = ours && signal == 0 && is_contract_code(exit_code);
  return own_code ? static_cast<Exit>(exit_code) : Exit::failed;
}

void sort_simultaneous(std::vector<RankEnd>& ends, bool ours) {
  std::stable_sort(ends.begin(), ends.end(), [&](const RankEnd& a, const RankEnd& b) {
    return std::pair(urgency(a, ours), a.rank) < std::pair(urgency(b, ours), b.rank);
  });
}

LocalJobResult judge(std::vector<RankEnd> ends, bool requested, bool ours) {
  LocalJobResult result;
  result.ends = std::move(ends);
  result.first_failure = find_first_failure(result.ends, requested, ours);
  result.exit = exit_of(result, ours);
  result.stopped_on_request = requested || result.exit == Exit::requeue;
  return result;
}

std::string describe(const LocalJobResult& result) {
  std::string text;
  if (result.first_failure.has_value()) {
    text = first_failure_text(*result.first_failure, result.ends.size());
  } else if (result.exit == Exit::requeue) {
    text = "stopped on request with the state saved; the same command goes on from there\n";
  } else if (result.stopped_on_request) {
    text = "stopped on request\n";
  } else {
    text = "all ranks ended well\n";
  }
  std::string others;
  for (const RankEnd& end : result.ends) {
    const bool is_first =
        result.first_failure.has_value() && end.rank == result.first_failure->rank;
    if (!is_first && failed(end)) others += "  " + end_text(end) + "\n";
  }
  if (!others.empty()) text += (result.first_failure ? "as a consequence:\n" : "") + others;
  return text;
}

}  // namespace lockstep::launch
