// The table of advice: a new rule is one function and one row.
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/layout_part.h"
#include "lockstep/planner/advice.h"

namespace lockstep::planner {
namespace {

using model::ArchitectureKind;
using parallel::Layout;
using parallel::Offload;
using parallel::Recompute;

constexpr double kFarOver = 2;            // times the memory of a device: beyond what ZeRO-2 is for
constexpr std::int64_t kWide = 4096;      // of a layer: its thin products still fill a device
constexpr std::int64_t kFewSamples = 16;  // of a device, for statistics of batch normalisation
constexpr double kMuchExposed = 0.1;      // of a step
constexpr double kMuchKept = 0.5;         // of the memory: activations
constexpr double kUselessLink = 3;        // exchange / computing
constexpr int kWorkersADevice = 2;        // times cores / devices
constexpr std::int64_t kSmallCluster = 8;  // devices

std::string over_text(const Situation& at) {
  return "one device would need " + format_bytes(at.alone.memory.device.total()) + ", " +
         format_short(at.over_memory) + "x its memory";
}

/// Where the stage is said.
std::string zero_text(const Situation& at, int stage) {
  return (at.job.deepspeed ? "zero_optimization.stage " : "--zero ") + std::to_string(stage);
}

bool is_plain(const Layout& layout) { return layout.tensor == 1 && layout.pipeline == 1; }

std::optional<Said> plain_data_parallel(const Situation& at) {
  if (at.over_memory <= 0 || at.over_memory > 1 || at.job.layout.devices() < 2) return {};
  if (is_plain(at.job.layout) && at.job.layout.zero == 0) return {};
  return Said{"use plain data parallelism (" + zero_text(at, 0) + " --tensor 1 --pipeline 1)",
              "all of it fits into " + format_short(at.over_memory) +
                  "x the memory of one device: sharing states out only adds messages"};
}

/// What a device then holds, with the states shared out so far.
ClusterPlan shared_out(const Situation& at, int zero) {
  ClusterJob job = at.job;
  job.states_only = false;
  job.deepspeed_rule = false;
  job.layout.zero = zero;
  return plan_cluster(job);
}

/// A device alone has nobody to share with.
std::optional<Said> share_out(const Situation& at, int zero, std::string say) {
  if (!is_plain(at.job.layout) || at.job.layout.zero >= zero) return {};
  if (at.job.layout.tables > 1 && at.plan.fits().value_or(false)) return {};  // tables are shared
  if (at.job.layout.devices() < 2) return Said{"use several devices and " + say, over_text(at)};
  const std::int64_t then = shared_out(at, zero).memory.device.total();
  return Said{std::move(say), over_text(at) + "; with " +
                                  counted(at.job.layout.devices(), "device") + " each then holds " +
                                  format_bytes(then)};
}

bool zero_two_is_enough(const Situation& at) {
  return at.over_memory <= kFarOver &&
         (at.job.layout.devices() < 2 || shared_out(at, 2).fits().value_or(true));
}

std::optional<Said> zero_two(const Situation& at) {
  if (at.over_memory <= 1 || !zero_two_is_enough(at)) return {};
  return share_out(at, 2, "share optimizer and gradients out (" + zero_text(at, 2) + ")");
}

std::optional<Said> zero_three(const Situation& at) {
  if (at.over_memory <= 1 || zero_two_is_enough(at)) return {};
  const bool slow = at.crosses_hosts() && at.compute_s > 0 && at.exchange_s > at.compute_s;
  const bool splits = !slow && !at.facts.control_flow && parallel::has_layers(at.job.model);
  return share_out(at, 3,
                   "share parameters out too (" + zero_text(at, 3) + ")" +
                       (splits ? ", or split layers (--tensor, --pipeline)" : ""));
}

std::optional<Said> data_parallel_only(const Situation& at) {
  if (!at.facts.control_flow || is_plain(at.job.layout)) return {};
  return Said{"use data parallelism only, with --zero as memory asks (--tensor 1 --pipeline 1)",
              "the model takes another way for other data: no fixed cut into " +
                  counted(std::int64_t{1} * at.job.layout.tensor * at.job.layout.pipeline, "part") +
                  " is balanced, and ranks that share a layer would wait for different messages"};
}

std::string exchange_text(const Situation& at) {
  return "the exchange of a step takes " + format_duration(at.exchange_s) + " over " +
         std::string(at.link().name) + ", its computing " + format_duration(at.compute_s);
}

/// Micro-batches of a step whose computing lasts as long as the exchange.
std::int64_t hiding_accumulation(const Situation& at) {
  const double ratio = at.exchange_s / at.compute_s;
  return Saturated::of(std::ceil(ratio * static_cast<double>(at.job.layout.accumulation))).value();
}

std::optional<Said> useless_network(const Situation& at) {
  if (!at.crosses_hosts() || at.compute_s <= 0) return {};
  if (at.exchange_s <= kUselessLink * at.compute_s) return {};
  const std::string inside =
      at.job.machine->devices_per_host > 1 ? "stay inside one host" : "stay on one device";
  return Said{inside + ", or get faster links than " + std::string(at.link().name),
              exchange_text(at) + "; only " + format_count(hiding_accumulation(at)) +
                  " micro-batches a step would hide it"};
}

std::optional<Said> slow_network(const Situation& at) {
  if (!at.crosses_hosts() || at.compute_s <= 0) return {};
  if (at.exchange_s <= at.compute_s || at.exchange_s > kUselessLink * at.compute_s) return {};
  return Said{"over " + std::string(at.link().name) + ", raise --accumulation to " +
                  format_count(hiding_accumulation(at)) +
                  ", or train a smaller model with a larger --micro-batch",
              exchange_text(at)};
}

std::optional<Said> tensor_first(const Situation& at) {
  const Layout& layout = at.job.layout;
  if (layout.pipeline == 1 || at.job.architecture.width < kWide || !at.job.machine) return {};
  if (at.facts.control_flow) return {};  // data_parallel_only() says what to do
  const int per_host = at.job.machine->devices_per_host;
  if (layout.tensor * 2 > per_host || at.job.architecture.heads % (layout.tensor * 2) != 0) {
    return {};
  }
  return Said{"raise --tensor to " + std::to_string(layout.tensor * 2) + " before splitting into " +
                  counted(layout.pipeline, "stage"),
              "layers are " + format_count(at.job.architecture.width) + " wide and " +
                  counted(per_host, "device") + " of a host share " +
                  std::string(at.job.machine->inside.name) +
                  ": half of a layer still fills a device, and nobody waits for other stages"};
}

std::optional<Said> tensor_inside(const Situation& at) {
  if (!at.job.machine || at.job.layout.tensor <= at.job.machine->devices_per_host) return {};
  return Said{"lower --tensor to " + std::to_string(at.job.machine->devices_per_host) +
                  " and use --pipeline for the rest",
              counted(at.job.layout.tensor, "tensor rank") +
                  " exchange activations in each layer, across hosts over " +
                  std::string(at.job.machine->between.name)};
}

std::optional<Said> offload(const Situation& at) {
  const Layout& layout = at.job.layout;
  if (layout.devices() > kSmallCluster || layout.pipeline > 1) return {};
  if (layout.offload_optimizer != Offload::none || at.plan.fits().value_or(true)) return {};
  const bool sharing_does =
      layout.devices() > 1 && layout.zero < 3 && shared_out(at, 3).fits().value_or(false);
  if (sharing_does) return {};
  return Said{"offload the optimizer to the host's memory (--offload-optimizer cpu)",
              counted(layout.devices(), "device") + ": each needs " +
                  format_bytes(at.plan.memory.device.total()) + " of its " +
                  format_bytes(at.plan.device_memory_bytes) + ", " +
                  format_bytes(at.plan.memory.device.optimizer) + " of that for the optimizer"};
}

std::optional<Said> checkpointing(const Situation& at) {
  if (at.job.layout.recompute == Recompute::full || at.plan.device_memory_bytes == 0) return {};
  const auto kept = static_cast<double>(at.plan.memory.device.activations);
  const auto memory = static_cast<double>(at.plan.device_memory_bytes);
  if (at.plan.fits().value_or(true) || kept < kMuchKept * memory) return {};
  return Said{"compute layers once more in backward (--recompute full)",
              "activations take " + format_bytes(at.plan.memory.device.activations) + " of " +
                  format_bytes(at.plan.device_memory_bytes) + " a device"};
}

std::optional<Said> accumulation(const Situation& at) {
  if (!at.plan.time || at.job.layout.replicas() < 2) return {};
  const double exposed = at.plan.time->exposed_data_comm_s / at.plan.time->step_s;
  if (exposed < kMuchExposed || at.job.layout.zero >= 2) return {};
  if (at.plan.time->data_wait_s > at.plan.time->exposed_data_comm_s) return {};  // it hides it
  if (slow_network(at) || useless_network(at)) return {};  // say what to do about it
  return Said{"raise --accumulation from " + format_count(at.job.layout.accumulation) + " to " +
                  format_count(2 * at.job.layout.accumulation),
              format_percent(exposed, 0) +
                  " of a step waits for gradients, which are exchanged once a step"};
}

std::optional<Said> bf16_for_fp16(const Situation& at) {
  if (!at.job.machine || !at.job.recipe->name.starts_with("fp16")) return {};
  const std::string_view device = at.job.machine->device.name;
  if (device.starts_with("V100") || device.starts_with("A64FX")) return {};
  return Said{"use bf16 (--precision bf16)",
              std::string(device) +
                  " multiplies both equally fast; bf16 has the range of fp32 and needs no loss "
                  "scaling"};
}

std::optional<Said> sixteen_bits(const Situation& at) {
  if (!at.job.machine || at.job.recipe->name != "fp32") return {};
  const DeviceModel& device = at.job.machine->device;
  const double faster = device.half_flops_per_s / device.single_flops_per_s;
  if (faster < 1.5) return {};
  const bool volta = device.name.starts_with("V100") || device.name.starts_with("A64FX");
  return Said{
      volta ? "use fp16 with loss scaling (--precision fp16)" : "use bf16 (--precision bf16)",
      std::string(device.name) + " multiplies in 16 bits " + format_short(faster) +
          "x as fast as in fp32"};
}

std::optional<Said> learning_rate(const Situation& at) {
  if (at.facts.small_batch <= 0) return {};
  const auto batch = static_cast<double>(at.job.layout.global_batch());
  const double factor = batch / at.facts.small_batch;
  if (factor <= 1) return {};
  const std::string rate =
      at.facts.small_batch_rate > 0
          ? "a learning rate of " + format_number(at.facts.small_batch_rate * factor)
          : "a learning rate " + format_short(factor) + "x as high";
  return Said{"use " + rate + ", reached by a warm-up of some epochs",
              "the global batch grows from " +
                  format_count(Saturated::of(at.facts.small_batch).value()) + " to " +
                  format_count(at.job.layout.global_batch())};
}

std::optional<Said> sync_batch_norm(const Situation& at) {
  if (at.job.architecture.kind != ArchitectureKind::resnet) return {};
  if (at.job.layout.micro_batch >= kFewSamples || at.job.layout.data < 2) return {};
  return Said{"normalise over all ranks (parallel.sync_batch_norm)",
              counted(at.job.layout.micro_batch, "sample") +
                  " a device are few for the statistics of batch normalisation"};
}

std::optional<Said> faster_data(const Situation& at) {
  if (at.facts.loader_samples_per_s <= 0 || !at.plan.time) return {};
  const parallel::DataSource source = source_of(at.job);
  const double samples = parallel::samples_of_host(at.job.layout, *at.job.machine);
  const double rate = samples / at.plan.time->step_s;
  if (rate <= at.facts.loader_samples_per_s) return {};
  return Said{
      "feed each host faster: packed or smaller samples, local or faster disks, more data "
      "workers",
      "a host's devices take " + format_short(rate) + " samples/s (" +
          format_bytes(Saturated::of(rate * source.sample_bytes).value()) + "/s) and get " +
          format_short(at.facts.loader_samples_per_s)};
}

std::optional<Said> data_workers(const Situation& at) {
  if (at.facts.cores_per_host <= 0 || !at.job.machine) return {};
  const auto devices = static_cast<int>(std::min<std::int64_t>(
      at.job.layout.devices(), std::max(1, at.job.machine->devices_per_host)));
  const int workers = std::max(1, at.facts.cores_per_host * kWorkersADevice / devices);
  return Said{"start with data.workers = " + std::to_string(workers) + " a device",
              counted(at.facts.cores_per_host, "core") + " / " + counted(devices, "device") +
                  " of a host x 2"};
}

constexpr std::string_view kZero = "Rajbhandari et al. 2020, arXiv:1910.02054, sections 5 and 7";
constexpr std::string_view kMegatron = "Narayanan et al. 2021, arXiv:2104.04473, section 3";
constexpr std::string_view kLinks =
    "Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002, lower bound of all_reduce";
constexpr std::string_view kKind = kKindOfParallelism;
constexpr std::string_view kNetwork = "Links";
constexpr std::string_view kMemory = "Memory";
constexpr std::string_view kTraining = "The training itself";
constexpr std::string_view kSoftware = "DP, DDP, ZeRO, Horovod";

constexpr auto kRules = std::to_array<AdviceRule>({
    {kKind, "everything fits into one device", "plain data parallelism (DDP)",
     "each device has the whole model; only gradients travel, behind the computing",
     "Li et al. 2020, arXiv:2006.15704", plain_data_parallel},
    {kKind, "up to 2x the memory of one device", "ZeRO-2: optimizer and gradients shared out",
     "most bytes are the optimizer's (12 of 16 a parameter), and no more bytes travel than with "
     "DDP",
     kZero, zero_two},
    {kKind, "more than 2x the memory of one device, or ZeRO-2 is not enough",
     "ZeRO-3 (FSDP), or tensor and pipeline parallelism",
     "parameters must be shared too; ZeRO-3 sends half as much again as DDP", kZero, zero_three},
    {kKind, "the model has control flow that depends on the data",
     "data parallelism (with ZeRO) only",
     "a cut into stages or parts of layers is fixed before training and the same on all ranks",
     "PyTorch documentation, torch.distributed.pipelining: "
     "https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
     data_parallel_only},
    {kKind, "layers are wide (4096 and more) and links inside a host fast",
     "tensor parallelism inside the host before pipeline stages",
     "wide products stay efficient when cut; stages wait for each other (the bubble)", kMegatron,
     tensor_first},
    {kKind, "more tensor ranks than devices in a host", "pipeline or data parallelism across hosts",
     "tensor ranks exchange activations twice a layer, in forward and in backward", kMegatron,
     tensor_inside},
    {kNetwork, "the exchange takes over 3x as long as the computing (most models on 1 GbE)",
     "one host, or faster links",
     "1 GbE moves 0.12 GB/s; of 1 billion 16-bit gradients each rank sends nearly 4 GB a step",
     kLinks, useless_network},
    {kNetwork, "the exchange takes longer than the computing (10 GbE but for small models)",
     "smaller models, or accumulation",
     "only computing that lasts as long hides an exchange; small models leave memory for larger "
     "micro-batches, which compute longer for each exchange",
     kLinks, slow_network},
    {kNetwork, "over 10 % of a step waits for gradients", "raise accumulation",
     "gradients travel once a step, however many micro-batches it has",
     "Li et al. 2020, arXiv:2006.15704, section 3.2.4", accumulation},
    {kMemory, "8 devices or fewer, and ZeRO-3 does not fit either",
     "offload the optimizer to the host",
     "few devices leave little to share out; the host has more memory",
     "Ren et al. 2021, arXiv:2101.06840", offload},
    {kMemory, "it does not fit and activations take over half of the memory",
     "activation checkpointing",
     "a layer keeps its input alone; computing forward once more costs about a third more",
     "Chen et al. 2016, arXiv:1604.06174", checkpointing},
    {kMemory, "fp16 on a device that has bf16 (A100 and later)", "bf16",
     "the range of fp32: no loss scaling, no skipped steps",
     "Kalamkar et al. 2019, arXiv:1905.12322", bf16_for_fp16},
    {kMemory, "fp32 on a device with fast 16-bit products",
     "bf16, or fp16 with loss scaling where bf16 is missing (V100)",
     "half the bytes and several times the rate", "Micikevicius et al. 2018, arXiv:1710.03740",
     sixteen_bits},
    {kTraining, "the global batch grows k times",
     "k times the learning rate, with a warm-up (5 epochs there)",
     "one large step then stands for k small ones; held for SGD on ImageNet up to a batch of 8192",
     "Goyal et al. 2017, arXiv:1706.02677", learning_rate},
    {kTraining, "batch normalisation with fewer than 16 samples a device", "SyncBN",
     "statistics of a few samples are noise",
     "Peng et al. 2018, arXiv:1711.07240; Wu and He 2018, "
     "arXiv:1803.08494, figure 1",
     sync_batch_norm},
    {kTraining, "devices take samples faster than a host reads them",
     "packed or smaller samples, local or faster disks, more data workers",
     "reading goes on beside computing: a step takes as long as the longer of the two",
     "Mohan et al. 2021, arXiv:2007.06775", faster_data},
    {kTraining, "devices wait for data", "data workers = cores / devices x 2, then measure",
     "a rule of thumb that nobody has measured: enough to hide reading, without crowding the cores",
     "what workers do, not how many: PyTorch documentation, torch.utils.data: "
     "https://docs.pytorch.org/docs/stable/data.html",
     data_workers},
    {kSoftware, "torch.nn.DataParallel (DP) in an old script", "DDP",
     "DP is one process: Python's lock and copies of the model each step hold it up, one host only",
     "PyTorch documentation: "
     "https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html"},
    {kSoftware, "the model fits into each device", "DDP",
     "a process a device, gradients exchanged in buckets during backward",
     "Li et al. 2020, arXiv:2006.15704"},
    {kSoftware, "the model does not fit", "ZeRO (DeepSpeed) or FSDP (PyTorch)",
     "states are shared out instead of copied; FSDP's full sharding is stage 3",
     "Zhao et al. 2023, arXiv:2304.11277"},
    {kSoftware, "one code for TensorFlow, Keras and PyTorch, or a cluster run by MPI", "Horovod",
     "the same all_reduce for each framework; like DDP it has the whole model on each device",
     "Sergeev and Del Balso 2018, arXiv:1802.05799"},
});

}  // namespace

std::span<const AdviceRule> advice_rules() { return kRules; }

}  // namespace lockstep::planner
