// Our gpt (lockstep/model/gpt.h) and GPT-2 (Radford et al. 2019) as Hugging Face's transformers
// keeps it: Conv1D layers hold [inputs, outputs], masks are buffers, the head's matrix is the
// embedding. The order of queries, keys and values, and of the heads in each, is the same.
#include "lockstep/checkpoint/names/name_tables.h"

namespace lockstep::checkpoint {
namespace {

constexpr auto kTurned = Layout::turned;

constexpr auto kRules = std::to_array<NameRule>({
    {"", kOptional, "embed.wte.weight", {"transformer.wte.weight"}},
    {"", kOptional, "embed.wpe.weight", {"transformer.wpe.weight"}},
    {"layer", kNeeded, "blocks.{layer}.ln1.weight", {"transformer.h.{layer}.ln_1.weight"}},
    {"layer", kNeeded, "blocks.{layer}.ln1.bias", {"transformer.h.{layer}.ln_1.bias"}},
    {.part = "layer",
     .needed = kNeeded,
     .ours = "blocks.{layer}.qkv.weight",
     .theirs = {"transformer.h.{layer}.attn.c_attn.weight"},
     .layout = kTurned,
     .reads_stream = true},
    {"layer", kNeeded, "blocks.{layer}.qkv.bias", {"transformer.h.{layer}.attn.c_attn.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.proj.weight",
     {"transformer.h.{layer}.attn.c_proj.weight"},
     kTurned},
    {"layer", kNeeded, "blocks.{layer}.proj.bias", {"transformer.h.{layer}.attn.c_proj.bias"}},
    {"layer", kNeeded, "blocks.{layer}.ln2.weight", {"transformer.h.{layer}.ln_2.weight"}},
    {"layer", kNeeded, "blocks.{layer}.ln2.bias", {"transformer.h.{layer}.ln_2.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.fc1.weight",
     {"transformer.h.{layer}.mlp.c_fc.weight"},
     kTurned},
    {"layer", kNeeded, "blocks.{layer}.fc1.bias", {"transformer.h.{layer}.mlp.c_fc.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.fc2.weight",
     {"transformer.h.{layer}.mlp.c_proj.weight"},
     kTurned},
    {"layer", kNeeded, "blocks.{layer}.fc2.bias", {"transformer.h.{layer}.mlp.c_proj.bias"}},
    {"last norm", kNeeded, "head.ln.weight", {"transformer.ln_f.weight"}},
    {"last norm", kNeeded, "head.ln.bias", {"transformer.ln_f.bias"}},
    {"", kOptional, "head.fc.weight", {"lm_head.weight"}},
    {.part = "", .ours = "head.wte.weight", .theirs = {"lm_head.weight"}, .ours_only = true},
});

constexpr auto kTies = std::to_array<Tie>(
    {{"embed.wte.weight", "head.wte.weight", "transformer.wte.weight", "lm_head.weight"}});

constexpr auto kUnneeded = std::to_array<Unneeded>({
    {"transformer.h.{layer}.attn.bias", "the causal mask, which has one form only"},
    {"transformer.h.{layer}.attn.masked_bias", "what masked scores are set to"},
});

}  // namespace

const NameMap& gpt2_names() {
  static constexpr NameMap kMap{
      .family = "gpt2",
      .theirs = "GPT2LMHeadModel of Hugging Face transformers",
      .base_prefix = "transformer.",
      .stream = "embed.wte.weight",
      .rules = kRules,
      .ties = kTies,
      .counters = {},
      .unneeded = kUnneeded,
      .spellings = {},
  };
  return kMap;
}

}  // namespace lockstep::checkpoint
