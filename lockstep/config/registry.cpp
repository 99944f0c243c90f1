// The table itself. Whoever adds a key adds its field to run_config.h and its row here.
#include "lockstep/config/registry.h"

#include <algorithm>

#include "lockstep/config/option_access.h"

namespace lockstep::config {
namespace {

using Words = std::span<const std::string_view>;
template <std::size_t N>
using List = std::array<std::string_view, N>;

// In the order of the enums in run_config.h.
constexpr List<3> kFamilies{"mlp", "resnet", "gpt"};
constexpr List<4> kFormats{"idx", "cifar", "text", "synthetic"};
constexpr List<3> kAugments{"none", "flip", "flip_crop"};
constexpr List<2> kOptimizers{"sgd", "adamw"};
constexpr List<4> kSchedules{"constant", "linear", "cosine", "one_cycle"};
constexpr List<3> kDtypes{"fp32", "bf16", "fp16"};
constexpr List<2> kDecays{"all", "matrices"};
constexpr List<2> kCompressions{"none", "powersgd"};
constexpr List<3> kOnNan{"stop", "skip", "rollback"};
constexpr List<1> kAuto{"auto"};
constexpr List<1> kDynamic{"dynamic"};

constexpr List<1> kGpt{"gpt"};
constexpr List<1> kMlp{"mlp"};
constexpr List<1> kResnet{"resnet"};
constexpr List<2> kMlpGpt{"mlp", "gpt"};
constexpr List<2> kMlpResnet{"mlp", "resnet"};
constexpr List<2> kImages{"idx", "cifar"};
constexpr List<3> kFiles{"idx", "cifar", "text"};
constexpr List<1> kText{"text"};
constexpr List<2> kTokens{"text", "synthetic"};
constexpr List<1> kSgd{"sgd"};
constexpr List<1> kAdamw{"adamw"};
constexpr List<2> kDecaying{"linear", "cosine"};
constexpr List<1> kFp16{"fp16"};
constexpr List<1> kPowersgd{"powersgd"};

// Products of three such numbers still fit 64 bits.
constexpr double kManySteps = 1e12;
constexpr double kManySamples = 1e9;
constexpr double kMostSamples = 4'294'967'295;  // a permutation holds 32-bit ids

constexpr Range at_least(double minimum, double maximum) { return {minimum, maximum}; }
constexpr Range kFraction{0, 1};
constexpr Range kBelowOne{0, 1, false, true};
constexpr Range kNotNegative{0, 1e6};

struct More {
  Words words = {};
  Range range = {};
  ReadWhen read_when = {};
};

template <typename A>
constexpr Option row_of(std::string_view key, std::string_view help, std::string_view explain,
                        More more) {
  return {key,           A::kType,   A::kOptional,   help,    explain, more.words,
          A::kKeepsWord, more.range, more.read_when, &A::get, &A::set};
}

template <auto S, auto F>
constexpr Option row(std::string_view key, std::string_view help, std::string_view explain,
                     More more = {}) {
  return row_of<Access<S, F>>(key, help, explain, more);
}

using R = RunConfig;

constexpr auto kRun = std::to_array<Option>({
    row<&R::run, &RunSection::name>(
        "run.name", "name of the run and of its folder under runs/",
        "Letters, digits, '.', '_' and '-'. It stands in the run folder's name and in logs."),
    row<&R::run, &RunSection::seed>(
        "run.seed", "seed of weights, data order, dropout and augmentation",
        "Runs with equal configuration, seed and threads give equal numbers on one machine.",
        {.range = at_least(0, kManySteps)}),
    row<&R::run, &RunSection::steps>(
        "run.steps", "optimizer steps to train",
        "With epochs also set, training ends at whichever comes first; with neither set, after one "
        "epoch.",
        {.range = at_least(1, kManySteps)}),
    row<&R::run, &RunSection::epochs>(
        "run.epochs", "passes over the training data, also a fraction",
        "With steps also set, training ends at whichever comes first; with neither set, after one "
        "epoch.",
        {.range = {0, 1e6, true, false}}),
    row<&R::run, &RunSection::eval_every>("run.eval_every",
                                          "steps between evaluations; 0 = only after the last step",
                                          "", {.range = at_least(0, kManySteps)}),
    row<&R::run, &RunSection::threads>(
        "run.threads", "threads of one rank",
        "Threads are part of the numbers: how many share a sum decides its rounding. Hence they "
        "are fixed here and not taken from the machine. Must be 1 with parallel.virtual_ranks.",
        {.range = at_least(1, 1024)}),
    row<&R::run, &RunSection::check_gradients>(
        "run.check_gradients", "steps between checks of the gradients; 0 = never",
        "In such a step one rank also computes the whole batch alone, and the worst relative "
        "difference to what the ranks computed together is told.",
        {.range = at_least(0, kManySteps)}),
});

constexpr auto kModel = std::to_array<Option>({
    row<&R::model, &ModelSection::family>(
        "model.family", "kind of model",
        "mlp: fully connected layers; resnet: residual network for small images; gpt: decoder-only "
        "transformer.",
        {.words = kFamilies}),
    row<&R::model, &ModelSection::config>(
        "model.config", "model of a plan: its config.json, or the name of a known one",
        "Then no other key of [model] is read. `lockstep plan RUN.toml --gpus N --gpu NAME` plans "
        "it; it cannot be trained. Names and kinds: docs/guides/models.md. Paths are taken from "
        "the folder lockstep runs in."),
    row<&R::model, &ModelSection::weights>(
        "model.weights", "weights to start from: a file or folder, or the name of a tag",
        "Of safetensors, PyTorch (.pt), DCP, DeepSpeed or lockstep; names of Hugging Face and "
        "prefixes of wrappers are found out: docs/guides/checkpoints.md. Not read where the run "
        "goes on from a checkpoint. Paths are taken from the folder lockstep runs in."),
    row<&R::model, &ModelSection::weights_partial>(
        "model.weights_partial", "start although model.weights lacks some of the tensors",
        "They stay as they were initialised, with a note."),
    row<&R::model, &ModelSection::weights_strip>(
        "model.weights_strip", "prefixes to take off the names in model.weights: 'model.,net.'",
        "Empty takes off what wrappers left; none takes off nothing."),
    row<&R::model, &ModelSection::layers>(
        "model.layers", "hidden layers (mlp) or transformer blocks (gpt)", "",
        {.range = at_least(1, 10'000), .read_when = {"model.family", kMlpGpt}}),
    row<&R::model, &ModelSection::width>(
        "model.width", "width of the hidden layers (mlp) or of the model (gpt)",
        "For gpt a multiple of model.heads.",
        {.range = at_least(1, 1'000'000), .read_when = {"model.family", kMlpGpt}}),
    row<&R::model, &ModelSection::heads>(
        "model.heads", "attention heads", "Must divide model.width.",
        {.range = at_least(1, 10'000), .read_when = {"model.family", kGpt}}),
    row<&R::model, &ModelSection::vocab_size>(
        "model.vocab_size", "rows of the embedding", "256 for text read as bytes.",
        {.range = at_least(2, 10'000'000), .read_when = {"model.family", kGpt}}),
    row<&R::model, &ModelSection::dropout>(
        "model.dropout", "probability of dropping an activation",
        "Drawn from seed, step, virtual rank and block, so it does not depend on the ranks.",
        {.range = kBelowOne, .read_when = {"model.family", kGpt}}),
    row<&R::model, &ModelSection::depth>(
        "model.depth", "layers of the residual network: 18, 20, 32, 44 or 56",
        "18 is ResNet-18 in its form for small images (64 to 512 channels); 20, 32, 44 and 56 are "
        "the 6n+2 networks with 16 to 64 channels (He et al. 2015, section 4.2).",
        {.range = at_least(18, 56), .read_when = {"model.family", kResnet}}),
    row<&R::model, &ModelSection::channels>(
        "model.channels", "colour planes of an image", "1 for grey images, 3 for CIFAR.",
        {.range = at_least(1, 1024), .read_when = {"model.family", kResnet}}),
    row<&R::model, &ModelSection::image_size>(
        "model.image_size", "height and width of an image in pixels", "",
        {.range = at_least(8, 4096), .read_when = {"model.family", kResnet}}),
    row<&R::model, &ModelSection::inputs>(
        "model.inputs", "numbers in one sample", "784 for 28 x 28 pixels.",
        {.range = at_least(1, 10'000'000), .read_when = {"model.family", kMlp}}),
    row<&R::model, &ModelSection::classes>(
        "model.classes", "classes to tell apart", "",
        {.range = at_least(2, 10'000'000), .read_when = {"model.family", kMlpResnet}}),
});

constexpr auto kData = std::to_array<Option>({
    row<&R::data, &DataSection::format>(
        "data.format", "format of the data",
        "idx: the MNIST family's files; cifar: CIFAR-10 and CIFAR-100 binary files; text: a text "
        "read as bytes; synthetic: random samples of the model's shape, made on the fly.",
        {.words = kFormats}),
    row<&R::data, &DataSection::train>(
        "data.train", "training data: a file or folder, or for text also \"!command\"",
        "A text that starts with '!' is a command; what it prints is the training text. Paths are "
        "taken from the folder lockstep runs in.",
        {.read_when = {"data.format", kFiles}}),
    row<&R::data, &DataSection::eval>(
        "data.eval", "evaluation data, written like data.train; empty = no evaluation", "",
        {.read_when = {"data.format", kFiles}}),
    row<&R::data, &DataSection::seq_len>(
        "data.seq_len", "tokens of one sample", "",
        {.range = at_least(1, 10'000'000), .read_when = {"data.format", kTokens}}),
    row<&R::data, &DataSection::workers>(
        "data.workers", "background threads that make batches; 0 = none",
        "With 0 the training thread makes them itself. The numbers do not depend on it.",
        {.range = at_least(0, 256)}),
    row<&R::data, &DataSection::prefetch>(
        "data.prefetch", "batches made ahead",
        "Of small ones up to 16 are made ahead, as many as 1 MiB holds.",
        {.range = at_least(1, 10'000), .read_when = {"data.workers"}}),
    row<&R::data, &DataSection::train_samples>(
        "data.train_samples", "use only the first samples; 0 = all",
        "For synthetic data: how many samples there are.", {.range = at_least(0, kMostSamples)}),
    row<&R::data, &DataSection::eval_samples>(
        "data.eval_samples", "evaluate on the first samples only; 0 = all",
        "For synthetic data: how many samples there are to evaluate on.",
        {.range = at_least(0, kManySteps)}),
    row<&R::data, &DataSection::eval_fraction>(
        "data.eval_fraction", "share of the end of data.train held out for evaluation",
        "Used when data.eval is empty. 0.1 keeps the last tenth of the text out of training.",
        {.range = kBelowOne, .read_when = {"data.format", kText}}),
    row<&R::data, &DataSection::augment>(
        "data.augment", "random changes to training images",
        "flip: left-right with probability one half; flip_crop: also a random crop after padding "
        "by 4 pixels. Drawn from seed, epoch and sample, so it does not depend on the ranks.",
        {.words = kAugments, .read_when = {"data.format", kImages}}),
    row<&R::data, &DataSection::mean>(
        "data.mean", "subtracted from pixels in [0, 1]",
        "The model sees (pixel / 255 - mean) / std.",
        {.range = {-1e6, 1e6}, .read_when = {"data.format", kImages}}),
    row<&R::data, &DataSection::std>(
        "data.std", "pixels are divided by it", "The model sees (pixel / 255 - mean) / std.",
        {.range = {0, 1e6, true, false}, .read_when = {"data.format", kImages}}),
});

constexpr auto kBatch = std::to_array<Option>({
    row<&R::batch, &BatchSection::global_batch>(
        "batch.global_batch", "samples of one optimizer step over all ranks",
        "global_batch = micro_batch x accumulation x ranks. Any two of the three give the third; "
        "global_batch alone means accumulation 1.",
        {.range = at_least(1, kManySamples)}),
    row_of<MicroBatchAccess>(
        "batch.micro_batch", "samples of one forward of one rank; \"auto\" = found",
        "global_batch = micro_batch x accumulation x ranks. Any two of the three give the third; "
        "none at all means micro_batch 32. auto takes the fastest that fits the memory of a rank: "
        "predicted, then confirmed by a few probe steps, and remembered. A step that runs out of "
        "memory is repeated in smaller micro-batches of the same global_batch, which must be set.",
        {.words = kAuto, .range = at_least(1, kManySamples)}),
    row<&R::batch, &BatchSection::accumulation>("batch.accumulation",
                                                "micro-batches of one rank in a step",
                                                "Gradients of so many micro-batches are added up "
                                                "before they are exchanged. Unset: what the "
                                                "other two give, else 1.",
                                                {.range = at_least(1, 1'000'000)}),
});

constexpr auto kOptimizer = std::to_array<Option>({
    row<&R::optimizer, &OptimizerSection::name>(
        "optimizer.name", "update rule",
        "sgd: with momentum and L2 as PyTorch's SGD; adamw: Adam with decoupled weight decay "
        "(Loshchilov and Hutter 2019).",
        {.words = kOptimizers}),
    row<&R::optimizer, &OptimizerSection::lr>(
        "optimizer.lr", "peak learning rate",
        "The schedule reaches it after warm-up. With schedule.scale_lr_with_batch it is multiplied "
        "by global_batch / reference first.",
        {.range = kNotNegative}),
    row<&R::optimizer, &OptimizerSection::betas>(
        "optimizer.betas", "decay of the mean of gradients and of squared gradients", "",
        {.range = kBelowOne, .read_when = {"optimizer.name", kAdamw}}),
    row<&R::optimizer, &OptimizerSection::eps>(
        "optimizer.eps", "added to the root of the second moment", "",
        {.range = {0, 1, true, false}, .read_when = {"optimizer.name", kAdamw}}),
    row<&R::optimizer, &OptimizerSection::weight_decay>(
        "optimizer.weight_decay", "pull of the weights towards zero",
        "sgd adds weight_decay x weight to the gradient; adamw shrinks the weight by lr x "
        "weight_decay, apart from the moments.",
        {.range = kNotNegative}),
    row<&R::optimizer, &OptimizerSection::decay>(
        "optimizer.decay", "parameters that weight_decay pulls",
        "matrices: those of two and more dimensions; biases and the weights of normalisation "
        "layers are left alone, as is usual for transformers.",
        {.words = kDecays, .read_when = {"optimizer.weight_decay"}}),
    row<&R::optimizer, &OptimizerSection::momentum>(
        "optimizer.momentum", "share of the last update direction kept", "",
        {.range = kBelowOne, .read_when = {"optimizer.name", kSgd}}),
    row<&R::optimizer, &OptimizerSection::nesterov>("optimizer.nesterov",
                                                    "look one step ahead along the momentum", "",
                                                    {.read_when = {"optimizer.momentum"}}),
    row<&R::optimizer, &OptimizerSection::clip_grad_norm>(
        "optimizer.clip_grad_norm", "largest L2 norm of the mean gradient; 0 = no clipping",
        "Taken over all parameters, after gradients of all ranks and micro-batches are averaged.",
        {.range = kNotNegative}),
});

constexpr auto kSchedule = std::to_array<Option>({
    row<&R::schedule, &ScheduleSection::name>(
        "schedule.name", "course of the learning rate after warm-up",
        "constant; linear and cosine fall to final_lr_fraction at the last step; one_cycle rises "
        "and falls once (Smith 2018) as PyTorch's OneCycleLR.",
        {.words = kSchedules}),
    row<&R::schedule, &ScheduleSection::warmup_steps>(
        "schedule.warmup_steps", "steps over which the rate rises from 0 to its peak",
        "Counted in optimizer steps, whatever the ranks and the accumulation. For one_cycle, 0 "
        "means 30 % of the steps.",
        {.range = at_least(0, kManySteps)}),
    row<&R::schedule, &ScheduleSection::final_lr_fraction>(
        "schedule.final_lr_fraction", "rate after the last step divided by the peak", "",
        {.range = kFraction, .read_when = {"schedule.name", kDecaying}}),
    row<&R::schedule, &ScheduleSection::scale_lr_with_batch>(
        "schedule.scale_lr_with_batch", "global batch that optimizer.lr was chosen for; 0 = off",
        "The rate becomes lr x global_batch / this: the linear scaling rule (Goyal et al. 2017), "
        "to be used with warm-up.",
        {.range = at_least(0, kManySamples)}),
});

constexpr auto kOthers = std::to_array<Option>({
    row<&R::precision, &PrecisionSection::compute>(
        "precision.compute", "type of forward and backward",
        "bf16 and fp16 keep fp32 master weights and optimizer state, and compute on a copy in that "
        "type. fp16 has more digits and less range: it needs a loss scale. CPUs multiply it in "
        "fp32, so it saves memory there, not time.",
        {.words = kDtypes}),
    row<&R::precision, &PrecisionSection::reduce>(
        "precision.reduce", "type in which gradients travel between ranks",
        "bf16 and fp16 halve the bytes; the sums are taken in fp32 and rounded once.",
        {.words = kDtypes}),
    row<&R::precision, &PrecisionSection::loss_scale>(
        "precision.loss_scale", "factor of the loss in fp16; \"dynamic\" = as large as holds",
        "Small gradients would vanish in fp16. dynamic starts at 65536, halves the factor when a "
        "gradient overflows (that step is skipped) and doubles it after 2,000 good steps.",
        {.words = kDynamic,
         .range = {0, 1e9, true, false},
         .read_when = {"precision.compute", kFp16}}),
    row<&R::parallel, &ParallelSection::data>(
        "parallel.data", "data-parallel ranks; \"auto\" = all ranks of the job", "",
        {.words = kAuto, .range = at_least(1, 1'000'000)}),
    row<&R::parallel, &ParallelSection::virtual_ranks>(
        "parallel.virtual_ranks", "cut every batch for so many ranks, whatever their real number",
        "Runs on 1, 2, 4, ... ranks then give equal bits: a power of two, divisible by the ranks, "
        "and equal to global_batch / micro_batch. Needs run.threads = 1.",
        {.range = at_least(1, 1'048'576)}),
    row<&R::parallel, &ParallelSection::bucket_mib>(
        "parallel.bucket_mib", "largest bucket of gradients exchanged at once; 0 = chosen",
        "Buckets are sent while backward still runs. 0 is min(25 MiB, gradient bytes / 8).",
        {.range = at_least(0, 65'536)}),
    row<&R::parallel, &ParallelSection::first_bucket_mib>(
        "parallel.first_bucket_mib", "size of the first bucket, small so that sending starts early",
        "", {.range = {0, 65'536, true, false}}),
    row<&R::parallel, &ParallelSection::sync_batch_norm>(
        "parallel.sync_batch_norm", "batch normalisation over the samples of all ranks",
        "Costs two small exchanges a layer and step; of use where a rank has few samples.",
        {.read_when = {"model.family", kResnet}}),
    row<&R::parallel, &ParallelSection::static_graph>(
        "parallel.static_graph", "the same parameters get gradients in every step",
        "Buckets then need not wait for parameters that the first step did not use. A step that "
        "breaks it ends with the name of the parameter and its rank.",
        {}),
    row<&R::parallel, &ParallelSection::gradient_compression>(
        "parallel.gradient_compression", "how gradients are made smaller before they travel",
        "powersgd: matrices of low rank with error feedback (Vogels et al. 2019).",
        {.words = kCompressions}),
    row<&R::parallel, &ParallelSection::powersgd_rank>(
        "parallel.powersgd_rank", "rank of those matrices", "",
        {.range = at_least(1, 1024), .read_when = {"parallel.gradient_compression", kPowersgd}}),
    row<&R::parallel, &ParallelSection::powersgd_from>(
        "parallel.powersgd_from", "step from which gradients are compressed",
        "Before it they travel whole: the first steps turn the weights around and suffer most from "
        "what is left out. Unset: after schedule.warmup_steps.",
        {.range = at_least(0, kManySteps),
         .read_when = {"parallel.gradient_compression", kPowersgd}}),
    row<&R::parallel, &ParallelSection::local_steps>(
        "parallel.local_steps", "updates each rank makes alone between two averages; 1 = none",
        "Local SGD (Stich 2019): parameters and moments are averaged every so many steps, and no "
        "gradient travels between.",
        {.range = at_least(1, kManySteps)}),
    row<&R::parallel, &ParallelSection::local_steps_from>(
        "parallel.local_steps_from", "step from which parallel.local_steps holds",
        "Before it gradients are summed in every step (post-local SGD, Lin et al. 2020).",
        {.range = at_least(0, kManySteps), .read_when = {"parallel.local_steps", {}, 1}}),
    row<&R::checkpoint, &CheckpointSection::every>(
        "checkpoint.every", "steps between checkpoints; 0 = only when stopped on request", "",
        {.range = at_least(0, kManySteps)}),
    row<&R::checkpoint, &CheckpointSection::keep>("checkpoint.keep", "newest checkpoints kept",
                                                  "Older ones are deleted after a good save.",
                                                  {.range = at_least(1, 1'000'000)}),
    row<&R::checkpoint, &CheckpointSection::async>(
        "checkpoint.async", "whether checkpoints are written behind the training",
        "Each rank copies what it writes of the state, a share of it, and training goes on while "
        "the copy is written. A save waits only where two others are still being written."),
    row<&R::checkpoint, &CheckpointSection::dir>(
        "checkpoint.dir", "folder of the checkpoints; empty = checkpoints/ in the run folder", ""),
    row<&R::recovery, &RecoverySection::on_nan>(
        "recovery.on_nan", "what to do when a gradient is not finite",
        "stop: end with an error; skip: leave this update out; rollback: go back to the last "
        "checkpoint and leave the data of the bad step out. In fp16 such a step is left out and "
        "the loss scale falls; only ten in a row are a matter for this key.",
        {.words = kOnNan}),
});

template <std::size_t... N>
constexpr auto joined(const std::array<Option, N>&... parts) {
  constexpr std::size_t kCount = (N + ...);
  std::array<Option, kCount> all{};
  auto place = all.begin();
  ((place = std::copy(parts.begin(), parts.end(), place)), ...);
  return all;
}

constexpr auto kOptions = joined(kRun, kModel, kData, kBatch, kOptimizer, kSchedule, kOthers);

constexpr auto kSections = std::to_array<Section>({
    {"run", "what to run and for how long"},
    {"model", "the model"},
    {"data", "what it learns from"},
    {"batch", "how many samples go into a step"},
    {"optimizer", "how weights are updated"},
    {"schedule", "how the learning rate changes"},
    {"precision", "number formats"},
    {"parallel", "how the work is spread over the ranks"},
    {"checkpoint", "saving the state"},
    {"recovery", "what to do when something goes wrong"},
});

}  // namespace

std::span<const Option> options() { return kOptions; }

std::span<const Section> sections() { return kSections; }

const Option* find_option(std::string_view key) {
  const auto* row = std::find_if(kOptions.begin(), kOptions.end(),
                                 [&](const Option& option) { return option.key == key; });
  return row == kOptions.end() ? nullptr : row;
}

}  // namespace lockstep::config
