// The flags of a launch: one table for `lockstep launch` and for `lockstep train` as a launcher.
#pragma once
#include <array>
#include <string_view>

#include "lockstep/cli/command.h"
#include "lockstep/cli/launch_hosts.h"

namespace lockstep::cli {

[[nodiscard]] constexpr Flag text_flag(std::string_view name, std::string_view value,
                                       std::string_view help, std::string_view offers = {}) {
  return {.name = name, .value = value, .help = help, .offers = offers, .last_counts = true};
}

inline constexpr std::array kLaunchFlags{
    text_flag("--nnodes", "N|MIN:MAX", "hosts of the job, or fewest and most of them; default 1"),
    text_flag("--nproc-per-node", "N",
              "ranks on each host, or auto, cpu, gpu, xpu: as many as it has; default 1",
              "auto|cpu|gpu|xpu"),
    text_flag("--node-rank", "N", "this host's number among them; default 0 with static, else any"),
    text_flag("--rdzv-backend", "NAME",
              "how hosts find each other: static, c10d (our own) or etcd; default static",
              "static|c10d|etcd|etcd-v2"),
    text_flag("--rdzv-endpoint", "HOST:PORT", "where they meet; of etcd also HOST:PORT,HOST:PORT"),
    text_flag("--rdzv-id", "NAME", "of the job, equal on all hosts; default none"),
    text_flag("--rdzv-conf", "KEY=VALUE,...", "times and limits of the meeting"),
    text_flag("--job-secret", "FILE",
              "what only this job's hosts know, or fd:N; default ~/.config/lockstep/job-secret"),
    text_flag(
        "--may-differ", "FIELD,...",
        "of what must be equal on all hosts: lockstep, program, config, data, devices, driver"),
    Flag{.name = "--standalone", .help = "a job of this host alone, on a free port"},
    text_flag("--max-restarts", "N", "times that all ranks are started again; default 0"),
    text_flag("--role", "NAME", "of this host's ranks, for the log; default default"),
    Flag{.name = "--module", .help = "PROGRAM is a Python module", .short_name = "-m"},
    Flag{.name = "--no-python", .help = "PROGRAM runs itself, whatever it is"},
    Flag{.name = "--run-path", .help = "run the script with Python's runpy.run_path"},
    text_flag("--log-dir", "DIR", "where the ranks' files go: DIR/ID/attempt_N/LOCAL_RANK"),
    Flag{.name = "--redirects",
         .value = "STREAMS",
         .help = "write to files instead of showing: 1 stdout, 2 stderr, 3 both, or 0:3,1:0 by "
                 "local rank",
         .short_name = "-r",
         .last_counts = true},
    Flag{.name = "--tee",
         .value = "STREAMS",
         .help = "write to files and show, each line with its rank before it; as --redirects",
         .short_name = "-t",
         .last_counts = true},
    text_flag("--local-ranks-filter", "N,...", "show these local ranks only"),
    text_flag("--duplicate-stdout-filters", "WORD,...",
              "lines of --tee with one of these words also go to filtered_stdout.log"),
    text_flag("--duplicate-stderr-filters", "WORD,...",
              "lines of --tee with one of these words also go to filtered_stderr.log"),
    text_flag("--master-addr", "HOST", "of the first host, with static; default 127.0.0.1"),
    text_flag("--master-port", "PORT",
              "there, with static; default a free one on one host, 29500 on several"),
    text_flag("--local-addr", "HOST", "of this host, where it is not found out"),
    text_flag("--numa-binding", "MODE",
              "cores of a rank by those near its GPU: node, socket, exclusive or core-complex",
              "node|socket|exclusive|core-complex"),
    Flag{.name = "--bind-cores", .help = "give each rank an equal share of this host's cores"},
    text_flag("--signals-to-handle", "SIGNAL,...",
              "that stop the job; default SIGTERM,SIGINT,SIGHUP,SIGQUIT",
              "SIGTERM|SIGINT|SIGHUP|SIGQUIT|SIGUSR1|SIGUSR2"),
    Flag{.name = "--virtual-local-rank",
         .help = "each rank sees its own GPU alone, and LOCAL_RANK is 0"},
    text_flag("--pass-local-rank", "FORM",
              "hand --local-rank=N (dash) or --local_rank=N (underscore) to an old script",
              "dash|underscore"),
    Flag{.name = "--hostfile",
         .value = "FILE",
         .help = "hosts of the job, one a line, as in `node-a slots=4`",
         .last_counts = true},
    text_flag("--hosts", "HOST:N,...", "hosts of the job and the ranks of each, started over ssh"),
    kSshPortFlag,
    kSshIdentityFlag,
    kSshConfigFlag,
    kRemoteProgramFlag,
    Flag{.name = "--dry-run", .help = "print each rank's command and environment, start nothing"},
    text_flag("--monitor-interval", "SECONDS", "accepted, not needed: ends are seen at once"),
    text_flag("--start-method", "NAME", "accepted, not needed: spawn, fork or forkserver",
              "spawn|fork|forkserver"),
    text_flag("--event-log-handler", "NAME", "accepted, not read"),
    text_flag("--logs-specs", "NAME", "accepted, not read"),
};

}  // namespace lockstep::cli
