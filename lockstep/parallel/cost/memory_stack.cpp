#include "lockstep/parallel/cost/memory_stack.h"

#include <algorithm>
#include <array>

namespace lockstep::parallel {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

/// A CUDA context with the kernels of PyTorch and cuBLAS: 0.4 to 0.6 GB on V100 to H100.
constexpr double kContextBytes = 0.5e9;
/// NCCL: buffers of 4 MiB (NCCL_BUFFSIZE) to send and to receive on each of 24 channels.
constexpr double kNcclBytes = 2 * 24 * 4 * kMib;
/// What PyTorch's caching allocator holds in blocks that are too small for the next request.
constexpr double kSlack = 0.06;

MemoryStack pytorch(std::string_view name, std::string_view source) {
  MemoryStack stack;
  stack.name = name;
  stack.source = source;
  stack.runtime_bytes = kContextBytes;
  stack.group_bytes = kNcclBytes;
  stack.slack = kSlack;
  return stack;
}

MemoryStack megatron(std::string_view name, bool keeps_outputs) {
  MemoryStack stack = pytorch(name,
                              "github.com/NVIDIA/Megatron-LM: gradients are summed and reduced "
                              "in one buffer, the loss is computed in place");
  stack.loss = LossMemory::in_place;
  stack.exchange = GradientExchange::in_place;
  stack.keeps_outputs = keeps_outputs;
  return stack;
}

MemoryStack deepspeed(std::string_view name) {
  MemoryStack stack = pytorch(name,
                              "DeepSpeed's defaults (deepspeed/runtime/zero/config.py): "
                              "stage3_max_live_parameters 1e9, reduce_bucket_size 5e8, "
                              "stage3_param_persistence_threshold 1e5 elements");
  stack.gathered_elements = 1e9;
  stack.persistent_elements = 1e5;
  stack.bucket_bytes = 5e8 * 2;
  return stack;
}

MemoryStack formula() {
  MemoryStack stack;
  stack.name = "formula";
  stack.source = "arXiv:2205.05198, equations 1 to 6: layers alone";
  stack.loss = LossMemory::in_place;
  stack.exchange = GradientExchange::in_place;
  stack.activations_alone = true;
  return stack;
}

/// Megatron's own loop (no DeepSpeed engine) in fp32 on CPUs. From its source: one flat copy of all
/// gradients even on one rank, stage outputs kept. From runs with sequences of 1,024 and 2,048 on
/// one rank: masks as wide as numbers and two arrays of scores more than the formulas count, in
/// backward no further ones.
/// Fitted: what tensor ranks keep beside (all ten published layouts with them do).
MemoryStack fugaku() {
  MemoryStack stack;
  stack.name = "DeepSpeed on Fugaku";
  stack.source = "Fugaku-LLM/DeepSpeedFugaku, experiments/124m_13b_benchmarking";
  stack.runtime_bytes = 1750 * kMib;  // of a node: used memory is total less available
  stack.kept_by_exchange = 0.9;
  stack.mask_bytes = 4;
  stack.extra_scores = 2;
  stack.score_gradients = 0;
  stack.keeps_outputs = true;
  stack.loss = LossMemory::in_place;
  stack.exchange = GradientExchange::copied;
  return stack;
}

const auto& stacks() {
  static const auto rows = std::to_array<MemoryStack>({
      pytorch("PyTorch", "PyTorch 2: torch.distributed.fsdp, DistributedDataParallel"),
      pytorch("PyTorch DDP", "PyTorch 2: DistributedDataParallel"),
      pytorch("PyTorch FSDP", "PyTorch 2: torch.distributed.fsdp"),
      pytorch("llm-foundry FSDP", "PyTorch 2: torch.distributed.fsdp"),
      pytorch("Llama 3 paper", "arXiv:2407.21783, section 3.3.2"),
      megatron("Megatron-LM 2021", true),
      megatron("Megatron-LM 2022", false),  // arXiv:2205.05198, appendix B
      megatron("Megatron-Core 0.8", false),
      deepspeed("DeepSpeed"),
      deepspeed("DeepSpeed ZeRO-3 2021"),
      fugaku(),
      formula(),
  });
  return rows;
}

}  // namespace

std::span<const MemoryStack> memory_stacks() { return stacks(); }

const MemoryStack* find_memory_stack(std::string_view name) {
  const auto row = std::find_if(stacks().begin(), stacks().end(),
                                [&](const MemoryStack& stack) { return stack.name == name; });
  return row == stacks().end() ? nullptr : &*row;
}

const MemoryStack& usual_memory_stack(bool splits_layers) {
  return splits_layers ? *find_memory_stack("Megatron-Core 0.8") : stacks().front();
}

}  // namespace lockstep::parallel
