// Whether the process of a rank still runs, as /proc says.
#pragma once
#include <cstdint>

#include "lockstep/comm/records/flight_values.h"

namespace lockstep::comm {

enum class ProcessState : std::uint8_t {
  running,
  stopped,  // by SIGSTOP, Ctrl-Z or a debugger
  gone,
  unknown,  // of another host, or hidden
};

struct ProcessLook {
  ProcessState state = ProcessState::unknown;
  char letter = '?';  // of /proc/<pid>/stat: R, S, D, T ...; '-' when it is gone
};

/// This process.
[[nodiscard]] ProcessIdentity own_identity();

/// \param own own_identity(): only processes of the same host and pid namespace can be looked at.
[[nodiscard]] ProcessLook look_at(const ProcessIdentity& process, const ProcessIdentity& own);

/// The same from the text of /proc/<pid>/stat; empty = there is none.
[[nodiscard]] ProcessLook look_at_stat(std::string_view stat, std::int64_t start_ticks);

}  // namespace lockstep::comm
