// A decoder as model/stats names its tensors and Llama (Touvron et al. 2023) as Hugging Face's
// transformers keeps it; Mistral, Qwen2 (biases of q, k, v) and Qwen3 (norms of q and k) have the
// same names. We stack q, k and v. Rotary positions: each head's rows stay in Hugging Face's order,
// in which numbers i and i + d/2 turn together, not the i and i + 1 of Meta's own files.
#include "lockstep/checkpoint/names/name_tables.h"

namespace lockstep::checkpoint {
namespace {

constexpr auto kRules = std::to_array<NameRule>({
    {"", kOptional, "embed.wte.weight", {"model.embed_tokens.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln1.weight",
     {"model.layers.{layer}.input_layernorm.weight"}},
    {.part = "layer",
     .needed = kNeeded,
     .ours = "blocks.{layer}.qkv.weight",
     .theirs = {"model.layers.{layer}.self_attn.q_proj.weight",
                "model.layers.{layer}.self_attn.k_proj.weight",
                "model.layers.{layer}.self_attn.v_proj.weight"},
     .first_rows = "blocks.{layer}.proj.weight",
     .reads_stream = true},
    {.part = "layer",
     .ours = "blocks.{layer}.qkv.bias",
     .theirs = {"model.layers.{layer}.self_attn.q_proj.bias",
                "model.layers.{layer}.self_attn.k_proj.bias",
                "model.layers.{layer}.self_attn.v_proj.bias"},
     .first_rows = "blocks.{layer}.proj.weight"},
    {"layer",
     kOptional,
     "blocks.{layer}.q_norm.weight",
     {"model.layers.{layer}.self_attn.q_norm.weight"}},
    {"layer",
     kOptional,
     "blocks.{layer}.k_norm.weight",
     {"model.layers.{layer}.self_attn.k_norm.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.proj.weight",
     {"model.layers.{layer}.self_attn.o_proj.weight"}},
    {"layer",
     kOptional,
     "blocks.{layer}.proj.bias",
     {"model.layers.{layer}.self_attn.o_proj.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln2.weight",
     {"model.layers.{layer}.post_attention_layernorm.weight"}},
    {"layer", kNeeded, "blocks.{layer}.gate.weight", {"model.layers.{layer}.mlp.gate_proj.weight"}},
    {"layer", kOptional, "blocks.{layer}.gate.bias", {"model.layers.{layer}.mlp.gate_proj.bias"}},
    {"layer", kNeeded, "blocks.{layer}.up.weight", {"model.layers.{layer}.mlp.up_proj.weight"}},
    {"layer", kOptional, "blocks.{layer}.up.bias", {"model.layers.{layer}.mlp.up_proj.bias"}},
    {"layer", kNeeded, "blocks.{layer}.down.weight", {"model.layers.{layer}.mlp.down_proj.weight"}},
    {"layer", kOptional, "blocks.{layer}.down.bias", {"model.layers.{layer}.mlp.down_proj.bias"}},
    {"", kOptional, "head.ln.weight", {"model.norm.weight"}},
    {"", kOptional, "head.fc.weight", {"lm_head.weight"}},
    {.part = "", .ours = "head.wte.weight", .theirs = {"lm_head.weight"}, .ours_only = true},
});

constexpr auto kTies = std::to_array<Tie>(
    {{"embed.wte.weight", "head.wte.weight", "model.embed_tokens.weight", "lm_head.weight"}});

constexpr std::string_view kFrequencies = "frequencies that follow from the configuration";
constexpr auto kUnneeded = std::to_array<Unneeded>({
    {"model.layers.{layer}.self_attn.rotary_emb.inv_freq", kFrequencies},
    {"model.rotary_emb.inv_freq", kFrequencies},
});

}  // namespace

const NameMap& llama_names() {
  static constexpr NameMap kMap{
      .family = "llama",
      .theirs = "LlamaForCausalLM of Hugging Face transformers",
      .base_prefix = "model.",
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
