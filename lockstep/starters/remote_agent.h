// The far end of a launcher on another host: takes its order from standard input, runs it, and ends
// with the connection.
#pragma once
#include <chrono>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::starters {

/// The flag that makes the program lockstep this (cli/program.cpp).
inline constexpr const char* kRemoteAgentFlag = "--remote-agent";

/// On standard input after the order: the byte that asks the command to stop (SIGTERM).
inline constexpr char kStopByte = 'T';
/// And those that hand it SIGUSR1 and SIGUSR2.
inline constexpr char kUser1Byte = '1';
inline constexpr char kUser2Byte = '2';

/// Where the command finds the secret of its order, as words of --job-secret.
inline constexpr const char* kSecretDescriptor = "fd:3";

/// Reads an AgentOrder from `order_fd` (agent_order.h), runs its command with this process's
/// output, and returns the command's exit code, 1 when a signal killed it. When the other side
/// goes, because it ended or its connection broke, the command and all that it started in its group
/// is killed at once: who could say what becomes of it is gone. \throws UsageError (no order),
/// EnvironmentFault (no such folder or program).
[[nodiscard]] Exit run_remote_agent(int order_fd);

}  // namespace lockstep::starters
