// Checkpoints, models and plans, training.
#include <array>

#include "lockstep/base/problem_code_tables.h"

namespace lockstep {
namespace {

constexpr auto kCodes = std::to_array<ProblemCode>({
    {"LS-5001", "no room for a checkpoint",
     "The disk has less free space than the checkpoint needs, or a quota is reached: the message "
     "has path, need and free space. A network file system can be full on one of its disks though "
     "it reports space. The last good checkpoint is untouched and training goes on; the third "
     "failure in a row ends the run. Free some space, or set checkpoint.dir to another disk; "
     "checkpoint.keep says how many are kept."},
    {"LS-5002", "checkpoint not writable or readable",
     "The system refused to read or write in the checkpoint folder: permissions, a read-only or "
     "failing disk, a network file system that is gone or knows its files no more (stale handle), "
     "or a name that is not a folder. The last good checkpoint is untouched and training goes on; "
     "the third failure in a row ends the run."},
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
    {"LS-5012", "not a PyTorch file that can be read or written",
     "The file is cut off, compressed, big-endian, of the form before PyTorch 1.6, or something "
     "else "
     "that only has the name: a web page, zeros, a pointer of git-lfs. The message says which. "
     "Nothing was taken from it. Of a file that is to be written: a type that PyTorch does not "
     "have, or "
     "a name given twice."},
    {"LS-5013", "pickle asks for what is not allowed",
     "A PyTorch file describes its tensors by a pickle, which can name any code. lockstep executes "
     "none of it: it builds plain values from a short list of names (docs/formats/foreign.md) and "
     "refuses the file for any other. Where the file was made, save the tensors alone, as "
     "safetensors say."},
    {"LS-5014", "names that are not the model's",
     "No tensor of the checkpoint has a name of the model, or names could be stripped in two ways "
     "that differ. The message says what would make them fit; --strip takes prefixes off. Where a run starts "
     "from weights: tensors are missing or of another shape or type; model.weights_partial leaves "
     "those as they are initialised."},
    {"LS-5015", "names that are not of this family",
     "The table of names of a model family does not fit the tensors: one is missing that another "
     "needs, or a shape differs. The message names it."},
    {"LS-5016", "tag unknown, taken or badly named",
     "Tags are names for checkpoints, of letters, digits and ._-. `lockstep ckpt tag list` shows "
     "them; --replace gives a name anew."},
    {"LS-5017", "tagged checkpoint changed",
     "A file of the checkpoint is missing, or is not what it was when the tag was made. Restore "
     "it, "
     "or tag the checkpoint anew if it is meant to be so."},
    {"LS-5018", "checkpoint folder that ranks do not share",
     "Every rank writes its own part of a checkpoint into one folder, and a rank does not see the "
     "folder that rank 0 made. checkpoint.dir must lie on a file system that every host mounts."},
    {"LS-5019", "checkpoint format that is not read or written",
     "This version of lockstep does not read, or does not write, checkpoints of that format. The "
     "message says what it can do instead."},
    {"LS-5020", "folder of another framework that does not add up",
     "A file of the checkpoint is missing, or its parts do not make the whole tensors that its "
     "description promises. The message names file and tensor. Nothing was taken from it."},
    {"LS-5021", "resume that would train something else",
     "A key differs from the configuration that the checkpoint was trained with, and with the "
     "change the run would go on with other samples, other steps or other roundings than it "
     "promises. The message says what. Go on with the stored value; it stands under \"config\" in "
     "the checkpoint's manifest.json. Where the change is meant, --allow-change KEY accepts it. "
     "--resume none trains anew and moves what is there to RUN_DIR/previous-N."},
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
    {"LS-6026", "model that is only described",
     "model.config names a model that `lockstep plan` counts on devices that are named. `train` "
     "builds the families of model.family; where one of them is the same network, the message has "
     "its keys."},
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
     "ranks, chunks a pipeline, gathered weights one too."},
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
     "8xA100-80G is one, and @LINK behind it names what is between hosts (\"@100 GbE\"). Or it is "
     "a "
     "TOML file: device, devices_per_host, hosts, inside, between."},
    {"LS-6115", "DeepSpeed configuration not readable",
     "A plan goes by a ds_config.json: batch, zero_optimization, bf16 and fp16, and fills what is "
     "\"auto\". The message says which value or key cannot be, which numbers contradict each "
     "other, and the nearest ones that do not."},
    {"LS-6116", "timeline cannot be written",
     "plan --timeline FILE writes the simulated step beside FILE and then renames it. The folder "
     "is "
     "missing, not writable or full; no half-written file is left."},
    {"LS-6131", "measured rates of this machine not readable",
     "`plan --calibrate` keeps what it measured in a file that every plan of this machine reads. "
     "This one was cut short, edited or written by another version: measure again, or remove it."},
    {"LS-6132", "measured rates of this machine cannot be kept",
     "The folder for them ($LOCKSTEP_CACHE, else $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep) is "
     "missing, not writable or full."},
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

std::span<const ProblemCode> problem_codes_of_training() { return kCodes; }

}  // namespace lockstep
