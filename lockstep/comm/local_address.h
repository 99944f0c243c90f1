// Which address of this machine the other ranks can reach.
#pragma once
#include <string>

namespace lockstep::comm {

/// True for "unix:<path>", "localhost" and numeric loopback addresses.
[[nodiscard]] bool is_this_machine(const std::string& host);

/// The numeric address of the interface that leads to `host`, asked from the kernel; a name that
/// only this machine resolves to loopback (Debian's 127.0.1.1) gives an outer interface if there is
/// one.
/// \throws EnvironmentFault when `host` cannot be resolved or routed to.
[[nodiscard]] std::string address_towards(const std::string& host);

}  // namespace lockstep::comm
