#include "lockstep/parallel/cost/software_stack.h"

#include <algorithm>
#include <array>

namespace lockstep::parallel {
namespace {

/// FlashAttention as a share of FlashAttention-2: 25 to 40 % of an A100's peak against 50 to 73 %
/// (Dao 2023, arXiv:2307.08691, section 1).
constexpr double kFirstFlash = 0.57;

constexpr SoftwareStack megatron_2021() {
  SoftwareStack stack;
  stack.name = "Megatron-LM 2021";
  stack.source = "arXiv:2104.04473: nothing overlaps, sections 3.2 and 4.1 (scatter and gather)";
  stack.flash = 0;
  stack.scatters_hand_over = true;
  return stack;
}

constexpr SoftwareStack megatron_2022() {
  SoftwareStack stack = megatron_2021();
  stack.name = "Megatron-LM 2022";
  stack.source =
      "arXiv:2205.05198, section 6.2: backward's all_reduce runs beside the weights' gradient";
  stack.exposed_backward = 0.5;
  stack.kind = StackConstant::device_time;
  stack.constant = 0.962;
  return stack;
}

constexpr SoftwareStack megatron_core() {
  SoftwareStack stack;
  stack.name = "Megatron-Core 0.8";
  stack.source = "its README: --tp-comm-overlap, --overlap-grad-reduce, --overlap-param-gather";
  stack.sequence = true;
  stack.exposed_forward = 0.5;
  stack.exposed_backward = 0.5;
  stack.exposed_sequence_backward = 0.5;
  // megatron/core/distributed/distributed_data_parallel.py: bucket_size
  stack.buckets = {true, 0, 40e6, 1e6, true};
  return stack;
}

constexpr SoftwareStack llama_3() {
  SoftwareStack stack = megatron_core();
  stack.name = "Llama 3 paper";
  stack.source = "arXiv:2407.21783, section 3.3.2";
  stack.exposed_forward = 1;
  stack.exposed_backward = 1;
  stack.exposed_sequence_backward = 1;
  return stack;
}

constexpr SoftwareStack zero_3_of_2021() {
  SoftwareStack stack = megatron_2021();
  stack.name = "DeepSpeed ZeRO-3 2021";
  stack.source = "arXiv:1910.02054; each parameter is gathered by itself, over one card a device";
  stack.flat_gather = true;
  stack.kind = StackConstant::gather_rate;
  return stack;
}

constexpr SoftwareStack pytorch_fsdp() {
  SoftwareStack stack;
  stack.name = "PyTorch FSDP";
  stack.source =
      "torch/utils/checkpoint.py, early_stop: non-reentrant recomputation ends with what backward "
      "needs";
  stack.skips_last_product = true;
  stack.buckets = {.beside_backward = true, .gathers_beside_forward = true};
  return stack;
}

constexpr SoftwareStack pytorch_ddp() {
  SoftwareStack stack = pytorch_fsdp();
  stack.name = "PyTorch DDP";
  stack.source = "torch/nn/parallel/distributed.py: bucket_cap_mb 25; arXiv:2006.15704";
  stack.buckets = {.beside_backward = true, .bytes = 25.0 * 1024 * 1024};
  return stack;
}

constexpr SoftwareStack deepspeed(std::string_view name, bool overlaps) {
  SoftwareStack stack = pytorch_fsdp();
  stack.name = name;
  stack.source =
      "DeepSpeed's defaults: reduce_bucket_size 5e8 elements; overlap_comm true with "
      "stage 3 alone";
  stack.buckets = {.beside_backward = overlaps, .elements = 5e8};
  return stack;
}

constexpr SoftwareStack llm_foundry() {
  SoftwareStack stack = pytorch_fsdp();
  stack.name = "llm-foundry FSDP";
  stack.source = "mosaicml/llm-foundry, mpt-*.yaml: reentrant: false, attn_impl: flash (the first)";
  stack.flash = kFirstFlash;
  stack.kind = StackConstant::device_time;
  stack.constant = 1.04;
  return stack;
}

constexpr SoftwareStack fugaku() {
  SoftwareStack stack;
  stack.name = "DeepSpeed on Fugaku";
  stack.source =
      "Fugaku-LLM/DeepSpeedFugaku: PyTorch on CPUs over MPI; its rows of 64 and 256 nodes show an "
      "exchange that grows with the number of data ranks";
  stack.flash = 0;
  stack.linear_exchange = true;
  stack.kind = StackConstant::hand_over;
  stack.constant = 6.82;
  return stack;
}

constexpr std::array kStacks{megatron_2021(),
                             megatron_2022(),
                             megatron_core(),
                             llama_3(),
                             zero_3_of_2021(),
                             pytorch_fsdp(),
                             pytorch_ddp(),
                             deepspeed("DeepSpeed", false),
                             deepspeed("DeepSpeed with overlap_comm", true),
                             llm_foundry(),
                             fugaku()};

}  // namespace

std::span<const SoftwareStack> software_stacks() { return kStacks; }

const SoftwareStack* find_stack(std::string_view name) {
  const auto* row = std::find_if(kStacks.begin(), kStacks.end(),
                                 [&](const SoftwareStack& stack) { return stack.name == name; });
  return row == kStacks.end() ? nullptr : row;
}

const SoftwareStack& usual_stack(const Layout& layout) {
  if (layout.tensor > 1 || layout.pipeline > 1) return usual_stack(true);
  return *find_stack(layout.zero > 0 ? "PyTorch FSDP" : "PyTorch DDP");
}

const SoftwareStack& usual_stack(bool splits_layers) {
  return *find_stack(splits_layers ? "Megatron-Core 0.8" : "PyTorch FSDP");
}

}  // namespace lockstep::parallel
