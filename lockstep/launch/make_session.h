// Which membership a launch has: one host alone, fixed hosts, or a board that hosts meet at.
#pragma once
#include <memory>

#include "lockstep/base/socket.h"
#include "lockstep/launch/agent.h"
#include "lockstep/rendezvous/session.h"

namespace lockstep::launch {

/// \param on_waiting told every five seconds who is missing.
/// \throws UsageError, EnvironmentFault when the job cannot be joined.
/// \param settings store_port is filled in.
[[nodiscard]] std::unique_ptr<rendezvous::Session> make_session(AgentSettings& settings,
                                                                const OnWaiting& on_waiting);

/// This launcher as the others see it, without its ports and what must be equal.
[[nodiscard]] rendezvous::Agent own_agent(const AgentSettings& settings);

/// The first round of a job of this host alone, as --dry-run shows it.
[[nodiscard]] rendezvous::Round first_round(const AgentSettings& settings);

}  // namespace lockstep::launch
