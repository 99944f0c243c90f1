// Which address of this machine the other ranks can reach.
#pragma once
#include <string>
#include <string_view>

namespace lockstep::comm {

/// True for "unix:<path>", "localhost" and numeric loopback addresses.
[[nodiscard]] bool is_this_machine(const std::string& host);

/// True for numeric addresses that hold on one cable only: 169.254.0.0/16, fe80::/10.
[[nodiscard]] bool is_link_local(const std::string& address);

/// True for interfaces between this machine and its own containers: "docker0", "veth1a2b".
[[nodiscard]] bool is_for_containers(std::string_view interface);

/// The numeric address of the interface that leads to `host`, asked from the kernel. Where that is
/// loopback (Debian resolves its own name to 127.0.1.1), link-local or for containers, an outer
/// interface is taken if there is one.
/// \throws EnvironmentFault when `host` cannot be resolved or routed to.
[[nodiscard]] std::string address_towards(const std::string& host);

}  // namespace lockstep::comm
