// What goes in: the command line, configuration and data.
#include <array>

#include "lockstep/base/problem_code_tables.h"

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
    {"LS-1021", "words or flags that `ckpt` cannot take",
     "The command needs a path more or less, or a flag is of another format than the one that is "
     "written. `lockstep ckpt convert --help` and its like have examples."},
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
});

}  // namespace

std::span<const ProblemCode> problem_codes_of_input() { return kCodes; }

}  // namespace lockstep
