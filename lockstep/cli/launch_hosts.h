// `lockstep launch --hosts` and `lockstep train --hosts`: a launcher on each host, started from
// here over ssh.
#pragma once
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/cli/launch_front.h"
#include "lockstep/launch/launch_options.h"
#include "lockstep/starters/hostfile.h"
#include "lockstep/starters/ssh_job.h"

namespace lockstep::cli {

inline constexpr Flag kSshPortFlag{
    .name = "--ssh-port",
    .value = "PORT",
    .help = "of sshd on the hosts of --hosts; default as ~/.ssh/config says",
    .type = ValueType::integer,
    .minimum = 1,
    .maximum = 65535};
inline constexpr Flag kSshIdentityFlag{
    .name = "--ssh-identity", .value = "FILE", .help = "with the key for these hosts"};
inline constexpr Flag kSshConfigFlag{
    .name = "--ssh-config", .value = "FILE", .help = "in place of ~/.ssh/config"};
inline constexpr Flag kRemoteProgramFlag{
    .name = "--remote-program",
    .value = "PATH",
    .help = "of lockstep on these hosts; default as on this one"};

[[nodiscard]] inline bool names_hosts(const launch::LaunchOptions& options) {
  return !options.hosts.empty() || !options.hostfile.empty();
}

/// The hosts that --hosts or --hostfile name. \throws UsageError.
[[nodiscard]] std::vector<starters::HostSlots> hosts_of(const launch::LaunchOptions& options);

/// What is started where. \throws UsageError (hosts, hostfile, .deepspeed_env).
[[nodiscard]] starters::SshJobOptions job_on_hosts(const LaunchJob& job, const Args& args,
                                                   const Context& context);

/// Runs a job on its hosts, or prints it. \returns the exit code of
/// docs/cli.md. \throws UsageError, EnvironmentFault before anything is started; with --json Error
/// for a host that failed.
[[nodiscard]] Exit launch_on_hosts(const LaunchJob& job, const Args& args, const Context& context);

}  // namespace lockstep::cli
