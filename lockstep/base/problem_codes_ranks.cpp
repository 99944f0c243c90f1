// Starting ranks and their communication.
#include <array>

#include "lockstep/base/problem_code_tables.h"

namespace lockstep {
namespace {

constexpr auto kCodes = std::to_array<ProblemCode>({
    {"LS-3001", "address in use",
     "Another process listens on the port or socket that was asked for; the message names it "
     "when this user may see it. End it, choose another --master-port, or leave the port out: "
     "a free one is then picked."},
    {"LS-3002", "address not usable",
     "A host name cannot be resolved, or the address is not one of this host. Only the named "
     "address is bound, never all of them."},
    {"LS-3003", "nobody answers at an address",
     "No connection came about before the deadline. The process that serves the address has "
     "not started, has ended, or a firewall is between."},
    {"LS-3004", "program cannot be started",
     "The program a rank should run does not exist, may not be executed, or the system is out "
     "of processes or memory."},
    {"LS-3005", "log file cannot be made",
     "The folder for the ranks' logs cannot be made or written. Choose another one, or leave it "
     "out: the ranks' output is then shown."},
    {"LS-3006", "a rank failed",
     "A rank was killed or ended with a failure and said nothing about it in lockstep's form. The "
     "message tells which one was first and its last lines; the logs folder of the run holds the "
     "rest."},
    {"LS-3007", "a limit of this process reached",
     "Memory, threads or open files ran out. The message says which limit of the shell or the "
     "container holds (ulimit -v, -u, -n) and what it is now; raise it."},
    {"LS-3008", "result not written",
     "What the command or its ranks printed did not all arrive: the disk or device behind it is "
     "full. The work itself may have been done. A reader that has left (`| head`) is no fault."},
    {"LS-3009", "log file not written",
     "What a rank printed could not be written to its log file, the first of which is named. Ranks "
     "go "
     "on and later lines are tried again; a job that ends well ends with 3, its logs having gaps."},
    {"LS-3021", "words of another agent not understood",
     "What an agent of the job wrote about itself, or what the leader announced, cannot be read: a "
     "field is missing, of the wrong type or out of range. The hosts run different versions of "
     "lockstep; start the same on all."},
    {"LS-3022", "place in the job taken",
     "Another launcher has joined with the same node rank, or from the same machine, or the node "
     "rank is higher than --nnodes allows. Both are named. One launcher starts all ranks of its "
     "host: with Slurm use --ntasks-per-node=1."},
    {"LS-3023", "hosts differ",
     "What must be equal on all hosts of a job is not: versions, build, configuration, data, "
     "devices, drivers, or the launcher's own flags. The message names host, field and both "
     "values. Make them equal; where a difference is meant, name the field in "
     "--may-differ."},
    {"LS-3051", "run directory not writable",
     "A file of the run directory could not be made or written. Check that the folder exists, "
     "belongs to you and that the disk has room (df), or choose another with --run-dir."},
    {"LS-3061", "job secret not usable",
     "The agents of a job prove to each other that they know one secret of 32 bytes. It comes from "
     "a descriptor, a file of this user that is closed to others, or one of root that at most its "
     "group may read; without either it is made in ~/.config/lockstep/job-secret."},
    {"LS-3062", "job secret refused",
     "Two agents met that know different secrets, so neither trusts the other. Hosts that do not "
     "share a home folder each made their own: copy one host's ~/.config/lockstep/job-secret to "
     "all "
     "of them (mode 0600), or name one file everywhere."},
    {"LS-3063", "not an agent of this job",
     "Something else answers where the agents of this job should meet: another program, another "
     "job "
     "of lockstep, or another version of it. Check the address, port and --rdzv-id."},
    {"LS-3064", "the leading agent was lost",
     "One agent leads a job, at the endpoint that all were given. Its process has ended, or its "
     "host "
     "cannot be reached any more, and no other agent can take its place. The cause is on that "
     "host. "
     "With --rdzv-backend etcd another agent takes over."},
    {"LS-3065", "etcd does not answer",
     "The agents of the job meet in etcd (--rdzv-backend etcd), and none of the servers named gave "
     "an "
     "answer for a while. Losing it for a moment is no fault: ranks stop, and the job goes on when "
     "it "
     "is back. It must serve the JSON gateway of version 3.4 or later, without TLS."},
    {"LS-3066", "etcd speaks TLS only",
     "The agents of the job meet in etcd (--rdzv-backend etcd), which they reach over plain http. "
     "Let "
     "etcd listen for http as well, on an address that the hosts of the job alone reach "
     "(--listen-client-urls http://10.0.0.1:2379), or run a proxy on each host that speaks TLS to "
     "it, "
     "such as stunnel in client mode, and name the proxy: --rdzv-endpoint 127.0.0.1:2379."},
    {"LS-3067", "what a host told is not readable",
     "The launchers of fixed hosts tell each other in the store of node 0 how many ranks they "
     "start. "
     "What stands there is not what torchrun 2.11 or this version of lockstep writes."},
    {"LS-3068", "hosts that never came",
     "Before ranks start as many hosts must come as --nnodes says at least. The missing ones have "
     "not "
     "in time (--rdzv-conf join_timeout=600): their launchers were not started, or got another "
     "--node-rank, --nnodes, --rdzv-id or address."},
    {"LS-3069", "the job is not known any more",
     "The agents of the job meet in etcd, which keeps what the agent that leads announces. A "
     "launcher that had been stopped, or cut off, found neither a leader nor that state: the job "
     "ended more than two minutes before, or somebody removed its keys, or etcd lost its data. "
     "Alone "
     "it begins nothing anew."},
    {"LS-3081", "host that ssh cannot reach",
     "A launcher is started on each host by ssh, which asks no questions: a key must let this user "
     "in without a password, and the host's own key must be known (~/.ssh/known_hosts). Ports, "
     "users and keys of hosts belong into ~/.ssh/config."},
    {"LS-3082", "no order on standard input",
     "lockstep --remote-agent is the far end of a launcher on another host and takes its order "
     "from it. By hand there is nothing to do with it. Where `lockstep launch` started it, a login "
     "script on that host has read or replaced its standard input."},
    {"LS-3083", "folder missing on another host",
     "A launcher works in the folder that the job was started in. It must exist on every host: a "
     "shared file system, or a copy at the same path."},
    {"LS-3084", "lockstep missing on another host",
     "ssh reached the host, but the program is not there, or may not be executed."},
    {"LS-3085", "a host failed",
     "The launcher on a host ended badly, and with it the job. Its own lines stand before the "
     "message."},
    {"LS-3090", "out of memory",
     "The system refused memory for a tensor. Use a smaller batch or model, or more ranks; "
     "`lockstep "
     "plan` says what a run needs. With batch.micro_batch = \"auto\" a step that runs out of "
     "memory "
     "is repeated in smaller micro-batches; this one cannot be cut finer."},
    {"LS-3091", "resident memory not readable",
     "Memory is measured from /proc/self/status, which is missing or has another form here."},
    {"LS-4001", "ranks that never joined",
     "Every rank registers in the store before the group connects. The named ranks did not within "
     "the deadline: they failed to start (see their logs), or use another address or world size."},
    {"LS-4002", "peer lost in a collective",
     "A collective needs every rank. One ended, hangs, or was cut off; the message names the "
     "collective and the last one that completed. The cause is on the rank that failed first."},
    {"LS-4003", "rank taken twice",
     "Two processes joined one group under the same rank. Give each its own RANK, and jobs that "
     "run at the same time different ports or names."},
    {"LS-4004", "no way to the store's host",
     "The host name does not resolve, or no network interface of this machine leads to it."},
    {"LS-4005", "connections between ranks failed",
     "All ranks joined, but the direct connections between them could not be made: a rank ended in "
     "between, or a firewall blocks free ports between the hosts."},
    {"LS-4006", "an address that other hosts cannot reach",
     "Each rank tells the others where to connect to: the address of the interface that leads to "
     "the "
     "store's host. Loopback and link-local addresses end at the machine, so ranks of another one "
     "cannot use them. Usual cause: MASTER_ADDR is localhost, or a name that the first host "
     "resolves "
     "to 127.0.1.1. LOCKSTEP_ADDRESS names the address by hand."},
    {"LS-4010", "no room for shared memory",
     "Ranks of one host exchange data through /dev/shm, whose pages are reserved when a group is "
     "made. It is too small or full: containers get 64 MB unless told otherwise (--shm-size), and "
     "other programs may hold the rest."},
    {"LS-4011", "another rank's shared memory cannot be opened",
     "Ranks of one host open each other's memory through /proc, which needs one user and one view "
     "of the processes: run them in one container, or with --pid=host."},
    {"LS-4012", "shared memory of another version",
     "The memory that ranks of one host share was not laid out by this build of lockstep for this "
     "number of ranks. Start all ranks from one build."},
    {"LS-4013", "ranks entered different collectives",
     "All ranks of a group must enter the same collectives in the same order, with one dtype and "
     "count. Both sides and their call sites are named; no rank was handed a result, and the group "
     "is over. Usual causes: a condition that differs between ranks around a collective, batches "
     "or "
     "models of different shapes, ranks started with different configurations."},
    {"LS-4014", "ranks of several hosts in a group over shared memory",
     "The backend `lockstep` of PyTorch exchanges data through the memory of one host. The two "
     "named "
     "ranks run on different hosts, in containers that do not see each other, or as different "
     "users. "
     "Make a group for each host, or take gloo."},
    {"LS-4015", "values in shared memory that no rank writes",
     "What another rank of this host wrote for its peers cannot be: a size, a count or a message "
     "that "
     "no build of lockstep writes. Nothing of it was used, and the group is over. Something else "
     "wrote "
     "into that memory: a debugger, native code of the program, or a fault of the memory."},
    {"LS-4016", "a build without NCCL",
     "NCCL moves data between GPUs, and this lockstep was built without CUDA. `make cuda` fetches "
     "the CUDA libraries and builds the programs in build/cuda/bin. Without GPUs the backend is "
     "auto, shm or gloo (LOCKSTEP_BACKEND, GroupOptions::backend)."},
    {"LS-4017", "no GPU for a rank",
     "A group over NCCL takes one GPU a rank. None answers on this machine, it has fewer than "
     "ranks, "
     "or two ranks were shown the same one. `nvidia-smi -L` lists those that the driver has, "
     "CUDA_VISIBLE_DEVICES hides some, and a container sees only those it was given."},
    {"LS-4018", "training over NCCL",
     "`lockstep train` computes on CPUs, and NCCL moves the memory of GPUs only. Unset "
     "LOCKSTEP_BACKEND, or set it to auto. NCCL is for programs of your own that make a group, and "
     "for `lockstep bench comm`."},
    {"LS-4021", "not a flight file",
     "The file of a rank's flight recorder is cut off, of another version or not one at all: every "
     "field is checked before it is used. docs/formats/flight.md describes it. Remove the file; a "
     "running rank writes its own when it starts."},
    {"LS-4022", "no flight files",
     "`lockstep doctor watch` reads flight/rank-<rank>.ring in the run directory, which each rank "
     "of "
     "`lockstep train` makes once its job is known. Name the run directory itself, or wait until "
     "the "
     "job has started."},
    {"LS-4023", "flight recorder without a file",
     "A rank keeps the record of its last collectives in its run directory, so that it outlives "
     "the "
     "process. The file could not be made there: the disk is full, or the folder not writable. "
     "Training goes on with the record in memory, where `lockstep doctor watch` does not see it."},
    {"LS-4024", "flight file cannot be read",
     "The file of a rank's flight recorder is there, but the system does not let it be read. Check "
     "the permissions of the run directory."},
    {"LS-4030", "no control address of a rank",
     "Ranks tell each other through the store where their control connections go. What stands "
     "there "
     "was not written by this build of lockstep: start all ranks from one build, and give jobs "
     "that "
     "run at the same time different ports or names."},
    {"LS-4101", "a wait on the store ran out of time",
     "A key that another rank sets never came. The rank that should have set it has ended, "
     "hangs, or was never started."},
    {"LS-4102", "the store was lost",
     "The connection to the job's store broke or gave no answer: the launcher or rank 0 that "
     "serves it has ended. Its own message names the cause."},
});

}  // namespace

std::span<const ProblemCode> problem_codes_of_ranks() { return kCodes; }

}  // namespace lockstep
