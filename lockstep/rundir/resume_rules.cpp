// The table of what a change of each key means to a run that goes on.
#include "lockstep/rundir/resume_rules.h"

#include <array>

namespace lockstep::rundir {
namespace {

constexpr std::string_view kOtherUpdates = "updates are others from here on";
constexpr std::string_view kOtherRate = "the learning rate of a step is another from here on";
constexpr std::string_view kOtherLength =
    "the schedule goes over another number of steps, so the learning rate jumps";
constexpr std::string_view kOtherRounding = "sums are rounded otherwise from here on";
constexpr std::string_view kOtherScale = "the model sees its images scaled otherwise";
constexpr std::string_view kOtherEvaluation = "evaluations do not compare with those before";
constexpr std::string_view kOtherExchange = "gradients are rounded otherwise from here on";

constexpr auto kRules = std::to_array<ResumeRule>({
    {"run.name", kFree, kNumbersStay},
    {"run.seed", kRefused,
     "samples come in another order, so some twice in this epoch and some never; dropout and "
     "augmentation are drawn anew"},
    {"run.steps", kNoted, kOtherLength},
    {"run.epochs", kNoted, kOtherLength},
    {"run.eval_every", kFree, kNumbersStay},
    {"run.threads", kNoted, kOtherRounding},
    {"run.check_gradients", kFree, kNumbersStay},
    {"model.family", kImpossible, kOtherTensors},
    {"model.config", kImpossible, kOtherTensors},
    {"model.weights", kFree, "the checkpoint has weights of its own"},
    {"model.weights_partial", kFree, "the checkpoint has weights of its own"},
    {"model.weights_strip", kFree, "the checkpoint has weights of its own"},
    {"model.layers", kImpossible, kOtherTensors},
    {"model.width", kImpossible, kOtherTensors},
    {"model.heads", kImpossible, "the same tensors are cut into other heads"},
    {"model.vocab_size", kImpossible, kOtherTensors},
    {"model.dropout", kNoted, "another share of activations is dropped from here on"},
    {"model.depth", kImpossible, kOtherTensors},
    {"model.channels", kImpossible, kOtherTensors},
    {"model.image_size", kRefused, "the model sees images of another size"},
    {"model.inputs", kImpossible, kOtherTensors},
    {"model.classes", kImpossible, kOtherTensors},
    {"data.format", kRefused, "it goes on with other data"},
    {"data.train", kRefused, "it goes on with other data, from the old ones' place in the epoch"},
    {"data.eval", kNoted, kOtherEvaluation},
    {"data.seq_len", kImpossible, "the tensor of positions has a row for each token"},
    {"data.workers", kFree, kNumbersStay},
    {"data.prefetch", kFree, kNumbersStay},
    {"data.train_samples", kRefused, "an epoch has other samples, in another order"},
    {"data.eval_samples", kNoted, kOtherEvaluation},
    {"data.eval_fraction", kRefused, "an epoch has other samples, maybe ones that were held out"},
    {"data.augment", kNoted, "images are changed in another way from here on"},
    {"data.mean", kRefused, kOtherScale},
    {"data.std", kRefused, kOtherScale},
    {"batch.global_batch", kRefused,
     "a step takes another number of samples, so learning rate, schedule and run.steps mean "
     "something else"},
    {"batch.micro_batch", kNoted,
     "the same samples are cut into other parts: sums are rounded otherwise, and dropout and batch "
     "normalisation see other parts"},
    {"batch.accumulation", kFree, "it follows from global_batch, micro_batch and ranks"},
    {"optimizer.name", kImpossible, "its state has other tensors"},
    {"optimizer.lr", kNoted, kOtherUpdates},
    {"optimizer.betas", kNoted, kOtherUpdates},
    {"optimizer.eps", kNoted, kOtherUpdates},
    {"optimizer.weight_decay", kNoted, kOtherUpdates},
    {"optimizer.decay", kNoted, kOtherUpdates},
    {"optimizer.momentum", kNoted, kOtherUpdates},
    {"optimizer.nesterov", kNoted, kOtherUpdates},
    {"optimizer.clip_grad_norm", kNoted, kOtherUpdates},
    {"schedule.name", kNoted, kOtherRate},
    {"schedule.warmup_steps", kNoted, kOtherRate},
    {"schedule.final_lr_fraction", kNoted, kOtherRate},
    {"schedule.scale_lr_with_batch", kNoted, kOtherRate},
    {"precision.compute", kRefused, "every activation and gradient is rounded otherwise"},
    {"precision.reduce", kNoted, kOtherExchange},
    {"precision.loss_scale", kNoted, "other gradients vanish or overflow in fp16"},
    {"parallel.data", kNoted, "sums over the ranks are rounded otherwise"},
    {"parallel.virtual_ranks", kRefused,
     "batches are cut otherwise, so bits are no longer those of the same run on any ranks"},
    {"parallel.bucket_mib", kFree, kNumbersStay},
    {"parallel.first_bucket_mib", kFree, kNumbersStay},
    {"parallel.sync_batch_norm", kNoted, "batch normalisation takes its statistics of other parts"},
    {"parallel.static_graph", kFree, kNumbersStay},
    {"parallel.gradient_compression", kNoted, kOtherExchange},
    {"parallel.powersgd_rank", kNoted, kOtherExchange},
    {"parallel.powersgd_from", kNoted, kOtherExchange},
    {"parallel.local_steps", kNoted, "ranks are averaged at other steps"},
    {"parallel.local_steps_from", kNoted, "ranks are averaged at other steps"},
    {"checkpoint.every", kFree, kNumbersStay},
    {"checkpoint.keep", kFree, kNumbersStay},
    {"checkpoint.async", kFree, kNumbersStay},
    {"checkpoint.dir", kFree, kNumbersStay},
    {"recovery.on_nan", kFree, "steps that were left out are counted in the checkpoint"},
});

}  // namespace

std::span<const ResumeRule> resume_rules() { return kRules; }

}  // namespace lockstep::rundir
