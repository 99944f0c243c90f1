// Which process holds a TCP port of this host.
#pragma once
#include <string>

namespace lockstep {

/// "pid 4711 (python3 train.py)" of the process whose socket is bound to `port`, a listening one
/// first;
/// "" when /proc does not tell (another user's process, another network namespace).
[[nodiscard]] std::string port_holder(int port);
/// Its number; 0 when /proc does not tell.
[[nodiscard]] int port_holder_pid(int port);

/// "pid 4711 (python3 train.py)"; the command line is cut to 80 bytes. "pid 4711" when it has gone.
[[nodiscard]] std::string process_text(int pid);

}  // namespace lockstep
