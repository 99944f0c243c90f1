#include "lockstep/base/problem_codes.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr auto kCodes = std::to_array<ProblemCode>({
    {"LS-1001", "file not readable",
     "A file named on the command line does not exist or cannot be read. Check the spelling; "
     "relative paths are taken from the folder the command runs in."},
    {"LS-1002", "not valid TOML",
     "The file cannot be read as TOML 1.0. The place named is where reading stopped; the fault may "
     "be just before it: a missing quote, bracket or '='. Text values stand in quotes."},
    {"LS-1003", "unknown configuration key",
     "No part of lockstep knows this section or key. docs/config.md lists all of them and "
     "`lockstep help KEY` explains one."},
    {"LS-1004", "value of the wrong type",
     "The key takes another type of value: text in quotes, whole numbers without a point, true or "
     "false, or a list. `lockstep help KEY` says which."},
    {"LS-1005", "value not allowed",
     "The value has the right type but lies outside its range, or is not one of the words the key "
     "takes. `lockstep help KEY` says what is allowed."},
    {"LS-1006", "key given twice",
     "A key may stand once in the file. Remove one of the two; the place named is the second."},
    {"LS-1007", "key that nothing reads",
     "The key exists, but what this run has chosen (model family, data format, optimizer, "
     "schedule, or a number that another key goes with) does not read it. It would have no effect, "
     "so it is refused rather than ignored: "
     "remove it (on the command line `--set KEY=` does), or choose what reads it."},
    {"LS-1008", "--set is not KEY=VALUE",
     "--set takes section.key=value, for example --set optimizer.lr=0.05. Quote it when the shell "
     "would split it."},
    {"LS-1009", "batch numbers that do not fit",
     "global_batch = micro_batch x accumulation x ranks must hold in whole samples. Any two of the "
     "three numbers give the third; the message names the nearest ones that fit."},
    {"LS-1010", "virtual ranks that do not fit",
     "virtual_ranks fixes how the global batch is cut and in which order gradients are added, so "
     "that runs on different numbers of ranks give equal bits. It must be a power of two, "
     "divisible by the ranks, equal to global_batch / micro_batch, and threads must be 1."},
    {"LS-1011", "unknown command", "`lockstep help` lists the commands."},
    {"LS-1012", "unknown flag",
     "The command does not have this flag. `lockstep COMMAND --help` lists its flags; they may be "
     "written with - or _."},
    {"LS-1013", "flag with a wrong or missing value",
     "The flag needs a value of another type, within a range, or one of a few words; or it stands "
     "twice. `lockstep COMMAND --help` says which."},
    {"LS-1014", "too few or too many arguments",
     "The command takes another number of arguments without a flag name. `lockstep COMMAND --help` "
     "shows the usage."},
    {"LS-1015", "half-set or contradictory starter variables",
     "Whoever starts ranks (torchrun, mpirun, srun, a pod) tells each its place by environment "
     "variables. Some of them are missing, are not numbers, or contradict each other. Unset "
     "leftovers of another job, or set all of RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
     "MASTER_PORT."},
    {"LS-1016", "ranks on several hosts without a meeting point",
     "mpirun started ranks on several hosts, but none of them knows the address of the first. Hand "
     "it on: mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500 ..."},
    {"LS-1017", "not a resolved configuration",
     "The text is not the JSON of a configuration as lockstep writes it to config.json."},
    {"LS-1018", "nothing known by this name",
     "`lockstep help NAME` explains a command, a configuration key or section, or a code LS-nnnn."},
    {"LS-1019", "micro-batch that cannot be found",
     "batch.micro_batch = \"auto\" leaves it to lockstep into how many micro-batches the samples "
     "of a step are cut. So batch.global_batch must be set, batch.accumulation must not, and "
     "parallel.virtual_ranks, which fixes that cut for equal numbers on any ranks, must not "
     "either."},
    {"LS-1020", "flags of two questions",
     "Two flags ask for different things, or say the same thing twice: a plan is either of a run "
     "on "
     "this host (RUN.toml, --set, --nproc-per-node) or of a model on named devices (--model, "
     "--params, --gpus, --gpu, --cluster and what belongs to them). Keep one of the two."},
    {"LS-1031", "run directory in use",
     "One job at a time may work in a run directory or in the folder that checkpoint.dir names: "
     "two "
     "would mix their checkpoints. The process named holds the file `lock` in it, which the system "
     "releases when that process ends. Wait, stop it, or choose another --run-dir or "
     "checkpoint.dir."},
    {"LS-1041", "list of hosts that cannot be read",
     "A line of a hostfile is HOST slots=N, with max_slots=N where Open MPI is to read it too, or "
     "HOST:N, or HOST alone; '#' begins a comment. --hosts takes h1:4,h2:4. A list names at least "
     "one host."},
    {"LS-1042", "not a host",
     "Names of hosts end up on command lines, so they are letters, digits, '.', '-' and '_', and "
     "do "
     "not begin with '-'; addresses of IPv6 stand in brackets where a number of ranks follows. A "
     "user, port or key for a host belongs into ~/.ssh/config."},
    {"LS-1043", "host named twice",
     "Each host of a list stands once, with all its ranks: two launchers on one host would both "
     "start all of them."},
    {"LS-1044", "several launchers on one node",
     "srun or mpirun starts a launcher for each of its tasks, and each launcher starts all ranks "
     "of "
     "the node. Start one a node, or leave the launcher out: srun and mpirun can start the ranks "
     "themselves."},
    {"LS-1045", "line that is no variable",
     "A file of variables for other hosts (.deepspeed_env) has a line KEY=value each; the value is "
     "taken as it stands."},
    {"LS-2001", "data file not there",
     "A file or folder that [data] names does not exist or cannot be read on this machine. When it "
     "belongs to a Debian package, the message names the package to install."},
    {"LS-2002", "data file has the wrong length",
     "A data file ends before, or goes on after, what its header or its record size says: a broken "
     "download or copy. The message gives the offset, the expected and the actual length."},
    {"LS-2003", "data file is of another format",
     "The first bytes of a data file are not what [data] format promises. Check that data.train "
     "and data.eval name files of that format; docs/formats/ describes each."},
    {"LS-2004", "label out of range",
     "A label in a data file is larger than its format or model.classes allows. Set model.classes "
     "to the number of classes in the data, or repair the file."},
    {"LS-2005", "compressed data file damaged",
     "A gzip file breaks off or fails its checksum. Copy or download it again."},
    {"LS-2006", "data command failed",
     "data.train = \"!command\" runs a program and reads what it prints. The program is missing, "
     "failed, printed too much or did not end in time."},
    {"LS-2007", "data and model do not fit",
     "The samples of [data] have another shape or meaning than [model] reads: features, planes, "
     "image size, or tokens for a model of images. Change the one that is wrong."},
    {"LS-2008", "too little data",
     "A data set has no sample left after data.train_samples, data.eval_fraction and data.seq_len "
     "are applied."},
    {"LS-2009", "batch not made in time",
     "The background threads made no batch for minutes. The disk or network that holds the data "
     "does not answer, or the machine was suspended."},
    {"LS-2010", "too many samples",
     "The order of the samples of an epoch is kept as 32-bit numbers, so a data set has at most "
     "4,294,967,295 of them."},
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
     "What a rank printed could not be written to its log file, the first of which is named. Ranks go "
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
    {"LS-5001", "no room for a checkpoint",
     "The disk has less free space than the checkpoint needs, or a quota is reached. The last good "
     "checkpoint is untouched and training can go on. Free some space, or set checkpoint.dir to "
     "another disk; checkpoint.keep says how many are kept."},
    {"LS-5002", "checkpoint not writable or readable",
     "The system refused to read or write in the checkpoint folder: permissions, a read-only or "
     "failing disk, or a name that is not a folder. The last good checkpoint is untouched."},
    {"LS-5003", "not a checkpoint",
     "The folder named is not a checkpoint of lockstep: it has no manifest.json, or one that "
     "something else wrote. A checkpoint is a folder step-N below RUN_DIR/checkpoints; without a "
     "manifest its saving never ended."},
    {"LS-5004", "checkpoint damaged",
     "A file of the checkpoint is truncated, or its description contradicts itself or its "
     "manifest. Nothing was taken from it on trust. Resume from an older one."},
    {"LS-5005", "checksum does not match",
     "Bytes of the checkpoint changed after they were written: a failing disk or memory, or a "
     "program that wrote into the file. The tensor and its place are named. Resume from an older "
     "checkpoint."},
    {"LS-5006", "checkpoint of another model",
     "The tensors of the checkpoint are not those of this run: other names, shapes or types. "
     "Resume with the [model], [optimizer] and [precision] it was saved with; they stand under "
     "\"config\" in its manifest.json. --resume none trains anew and moves what is there to "
     "RUN_DIR/previous-N."},
    {"LS-5007", "checkpoint of a newer format",
     "A newer version of lockstep wrote the checkpoint. Use that version, or a newer one."},
    {"LS-5008", "checkpoint beyond the data",
     "The checkpoint stands at a sample of its epoch that the data set does not have: it was saved "
     "with more data. Resume with the data it was saved with, or train anew with --resume none."},
    {"LS-6001", "model size out of range",
     "A number in [model], or in the description of a model, is too small for any model of that "
     "family "
     "to be built, or far larger than any there is."},
    {"LS-6002", "no residual network of that depth",
     "model.depth must be 18 (CIFAR form of ResNet-18) or 20, 32, 44 or 56 (6n+2 layers of 16, 32 "
     "and 64 channels)."},
    {"LS-6003", "heads do not divide the width",
     "Attention cuts model.width into model.heads equal parts; choose a width that is a multiple."},
    {"LS-6004", "dropout out of range",
     "model.dropout is the share of activations that is zeroed; it lies in [0, 1)."},
    {"LS-6010", "virtual ranks with sums that depend on the ranks",
     "virtual_ranks promises equal bits on any number of ranks. That holds for fp32 sums of all "
     "gradients. What travels in 16 bits or compressed is rounded between ranks, and ranks that "
     "update alone sum nothing, so bits depend on where the ranks lie."},
    {"LS-6011", "stored plan not readable",
     "job.json or plan.json is not what this version writes: it was cut short or edited. Start the "
     "run again from its configuration."},
    {"LS-6012", "statistics over all ranks with more virtual ranks",
     "virtual_ranks promises equal bits on any number of ranks. With sync_batch_norm the "
     "micro-batches that ranks compute at the same time share their statistics, so the numbers "
     "depend on how many ranks there are. The two go together only where every rank has one "
     "virtual rank."},
    {"LS-6013", "two ways to make gradients smaller",
     "powersgd replaces matrices of gradients by two thin ones, which travel in fp32; "
     "precision.reduce has no meaning beside it."},
    {"LS-6014", "local steps with what needs one state",
     "With parallel.local_steps each rank updates alone between two averages. A checkpoint is "
     "saved only where all ranks have one state, gradients of the whole batch exist nowhere, and "
     "from parallel.local_steps_from on no gradient travels, in whatever form."},
    {"LS-6021", "no model of that name",
     "--model takes a name of docs/guides/models.md, or the config.json of a Hugging Face model. "
     "Any "
     "other size can be planned with --params, as a GPT of so many parameters."},
    {"LS-6022", "model description not readable",
     "The file is not the config.json of a Hugging Face model: it is no JSON, or no object. "
     "Nothing "
     "was taken from it."},
    {"LS-6023", "model type not known",
     "The model_type of a config.json says how the other keys are meant. lockstep counts the types "
     "that the message lists; of another one nothing is guessed. --params plans a GPT of as many "
     "parameters."},
    {"LS-6024", "key of a model description missing or unusable",
     "A size that the model cannot be counted without is not in its config.json, is of another "
     "type "
     "than transformers writes, or does not fit another one. All of them are listed."},
    {"LS-6025", "no GPT of that size",
     "--params plans a GPT-like model between 100 thousand and 100 trillion (1e14) parameters."},
    {"LS-6051", "mesh axis without ranks",
     "Every axis of the mesh (pipeline, data, tensor) has at least one rank; 1 means that the "
     "axis is not used."},
    {"LS-6101", "no such way to store numbers",
     "--precision names how weights, gradients, masters and moments are stored, by bytes a "
     "parameter. `lockstep plan --help` lists the names."},
    {"LS-6102", "layout number out of range",
     "Degrees of parallelism, the micro-batch and what counts pieces are whole numbers from 1 up, "
     "zero is a stage from 0 to 3. The message names the nearest value."},
    {"LS-6103", "layout that does not divide the model",
     "Tensor ranks share heads and columns, pipeline ranks layers, expert ranks experts, context "
     "ranks tokens, each in whole numbers. The message names the nearest values that divide."},
    {"LS-6104", "layout and devices differ",
     "data x tensor x pipeline x context must be the number of devices. The message says how many "
     "data ranks the others leave room for."},
    {"LS-6105", "layout parts that do not go together",
     "One part of the layout needs another, or excludes it: sequence parallelism needs tensor "
     "ranks, chunks a pipeline, shared gradients exclude one."},
    {"LS-6106", "cuts that do not fit the layers",
     "--cuts gives the layers of each pipeline piece (pipeline x chunks of them) in the model's "
     "order; they add up to the model's layers."},
    {"LS-6111", "no such device",
     "Plans know the devices of topology/device_models.cpp by name, memory included: A100-80G, not "
     "A100."},
    {"LS-6112", "no such link",
     "Plans know the links of topology/link_models.cpp by name: \"NVLink 4\", \"NDR InfiniBand\", "
     "\"25 GbE\"."},
    {"LS-6113", "published run not readable",
     "A row of published runs has other columns than its heading, or a field that is no number or "
     "names what no table has."},
    {"LS-6114", "cluster that cannot be read",
     "--cluster says hosts and devices: 8xA100-80G*4 is four hosts with eight devices each, "
     "8xA100-80G is one, and @LINK behind it names what is between hosts (\"@100 GbE\")."},
    {"LS-6115", "DeepSpeed configuration not readable",
     "Of a ds_config.json a plan reads zero_optimization: stage, offload_optimizer.device and "
     "offload_param.device. The message says which of them is no such value."},
    {"LS-7001", "second gradient in one micro-batch",
     "Data parallelism sums each gradient once per micro-batch, while backward runs. A parameter "
     "that gets a second one would be counted twice: add the losses first, then call backward "
     "once."},
    {"LS-7002", "unknown strategy in a plan",
     "plan.json names a strategy that this version does not have: it was written by another "
     "version or edited."},
    {"LS-7003", "second derivative of batch normalisation over ranks",
     "SyncBatchNorm gives gradients, but no gradients of gradients: create_graph cannot go through "
     "it. Use torch::nn::BatchNorm in that part of the model."},
    {"LS-7004", "unknown way to exchange gradients",
     "The plan names a way to exchange gradients that this version does not have. Ways are fp32, "
     "bf16, fp16 and powersgd: precision.reduce and parallel.gradient_compression choose one."},
    {"LS-7005", "static graph that changed",
     "parallel.static_graph promises that every step gives gradients to the same parameters, and a "
     "step did not: the parameter and the rank are named. Parameters are unchanged. Set it to "
     "false, or make every step use the same parameters."},
    {"LS-7006", "parameter thawed too late",
     "A parameter that was frozen when its replica was made has no place in the flat buffers: no "
     "rank would exchange its gradient or update it. Let it require a gradient before the replica "
     "is made. A parameter that is frozen afterwards keeps its place and may be thawed again."},
    {"LS-7051", "not a line of events.jsonl",
     "A step or evaluation report could not be read: a field is missing, of the wrong type or "
     "out of range. The file is damaged, or another program writes to it."},
    {"LS-7052", "not a summary.json",
     "The summary of a run could not be read: a field is missing, of the wrong type or out of "
     "range. The file is damaged or was not written by lockstep."},
    {"LS-7053", "run of a benchmark failed",
     "One of the runs that a benchmark started did not end well; the message carries what its "
     "ranks said. Run what failed alone to see more: the configuration with `lockstep train`, or "
     "one rank count, collective and size."},
    {"LS-7054", "peer of a benchmark missing",
     "`bench comm --against mpi` starts Open MPI's mpirun and bin/lockstep-mpi-peer, which is "
     "built "
     "where mpicc is found. Install openmpi-bin and libopenmpi-dev (`tools/setup.sh --mpi`), then "
     "build again."},
    {"LS-7055", "request or report of a benchmark not readable",
     "The front and the ranks of a benchmark hand each other JSON. What came is something else: a "
     "file that was cut short or edited, or programs of two versions beside each other."},
    {"LS-7056", "rank not kept on its core",
     "`bench comm` keeps each rank on a core of its own, so that times do not depend on where the "
     "system puts it. The system refused; --no-pin leaves the ranks where they are."},
    {"LS-7057", "stopped on request without a summary",
     "A signal ended the training before the ranks could report its end: in or before their first "
     "step, or because a second signal came. With exit code 75 the newest checkpoint holds the "
     "state; with 1 what was done since it is lost."},
    {"LS-7101", "loss or gradient not finite",
     "A step gave NaN or infinity on some rank; all ranks see the same sum, so all stop, with the "
     "parameters of the step before. Lower the rate, clip gradients, or let [recovery] on_nan skip "
     "the step or roll back."},
    {"LS-7102", "too many steps skipped in a row",
     "Ten steps in a row were not finite. Skipping more would train nothing: the run has "
     "diverged."},
    {"LS-7103", "no way back after a bad step",
     "[recovery] on_nan = \"rollback\" needs a checkpoint to go back to, and gives up after three "
     "rollbacks."},
    {"LS-7104", "no loss scale helps",
     "Ten steps in a row were not finite in fp16. A smaller loss scale helps where scaled "
     "gradients "
     "overflow; it cannot where a block's output is beyond 65504, the data hold infinity, or the "
     "weights have diverged. The message names the first block or parameter and its rank. bf16 has "
     "the range of fp32."},
    {"LS-7201", "wrong arguments of lockstep-worker",
     "lockstep-worker is started by `lockstep train`. By hand it takes a job, and RUN.toml or "
     "--job."},
    {"LS-7202", "the printing rank failed first",
     "The rank that prints could not load the configuration, plan or make the run directory; the "
     "other ranks end with the same exit code."},
    {"LS-7203", "out of memory",
     "An allocation failed. `lockstep plan RUN.toml` shows what the run needs by category; a "
     "smaller micro-batch needs less."},
    {"LS-9001", "a bug of lockstep",
     "An assumption inside lockstep did not hold. The message names the source line; please report "
     "it with the command you ran."},
});

}  // namespace

std::span<const ProblemCode> problem_codes() { return kCodes; }

const ProblemCode* find_problem_code(std::string_view code) {
  const auto* row = std::find_if(kCodes.begin(), kCodes.end(),
                                 [&](const ProblemCode& c) { return c.code == code; });
  return row == kCodes.end() ? nullptr : row;
}

}  // namespace lockstep
