// Sessions of a job of several hosts: torchrun's fixed hosts, or a board that hosts meet at.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/socket.h"
#include "lockstep/launch/agent.h"
#include "lockstep/rendezvous/session.h"

namespace lockstep::launch {

/// \param agent this launcher without its ports; an address it lacks is that of the interface that
/// leads to the others.
/// \throws UsageError (no endpoint named), EnvironmentFault when the job cannot be joined.
[[nodiscard]] std::unique_ptr<rendezvous::Session> make_hosts_session(AgentSettings& settings,
                                                                      rendezvous::Agent agent,
                                                                      const OnWaiting& on_waiting);

/// The port of the endpoint, or where nobody names one: torchrun's, or etcd's.
[[nodiscard]] Endpoint meeting_place(const LaunchOptions& options);

}  // namespace lockstep::launch
