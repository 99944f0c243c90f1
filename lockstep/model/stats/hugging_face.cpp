#include "lockstep/model/stats/hugging_face.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"
#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/config_keys.h"

namespace lockstep::model {
namespace {

constexpr std::int64_t kLongestSample = 8192;  // that is taken without being asked for

/// Without overflow, whatever the file says; check_architecture refuses what is too large.
std::int64_t times(std::int64_t number, std::int64_t factor) {
  return (Saturated(number) * factor).value();
}

std::int64_t divided(std::int64_t a, std::int64_t b) { return b > 0 ? a / b : 0; }

/// \param most tokens the model is made for.
void set_sequence(ConfigKeys& keys, Architecture& a, std::int64_t most) {
  a.default_sequence = std::min(most, kLongestSample);
  if (most <= kLongestSample) return;
  keys.assume("samples of " + std::to_string(kLongestSample) + " tokens, though the model takes " +
              std::to_string(most));
}

void set_sizes(ConfigKeys& keys, Architecture& a, ConfigKeys::Names width, ConfigKeys::Names layers,
               ConfigKeys::Names heads) {
  a.width = keys.required(width);
  a.layers = keys.required(layers);
  a.heads = keys.required(heads);
  a.kv_heads = a.heads;
  a.head_width = divided(a.width, a.heads);
  a.vocabulary = keys.required({"vocab_size"});
}

void set_standard_sizes(ConfigKeys& keys, Architecture& a) {
  set_sizes(keys, a, {"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"});
}

void warn_of_window(ConfigKeys& keys, const Architecture& a) {
  const bool off = keys.has({"use_sliding_window"}) && !keys.flag_or({"use_sliding_window"}, true);
  if (off || !keys.has({"sliding_window"})) return;
  const std::int64_t window = keys.integer_or({"sliding_window"}, 0);
  if (window <= 0 || window >= a.default_sequence) return;
  keys.assume("attention to all tokens of a sample, not to the last " + std::to_string(window));
}

/// What Llama and its many relatives have in common.
void read_llama(ConfigKeys& keys, Architecture& a, bool tied = false) {
  set_standard_sizes(keys, a);
  a.feed_forward = keys.required({"intermediate_size"});
  a.kv_heads = keys.integer_or({"num_key_value_heads"}, a.heads);
  if (keys.has({"head_dim"})) a.head_width = keys.required({"head_dim"});
  a.gated = true;
  a.rms_norm = true;
  a.biased = false;
  a.positions = Positions::rotary;
  a.attention_dropout = keys.share_or({"attention_dropout"}, 0);
  a.tied = keys.flag_or({"tie_word_embeddings"}, tied);
  set_sequence(keys, a, keys.required({"max_position_embeddings"}));
}

void read_plain_llama(ConfigKeys& keys, Architecture& a) {
  read_llama(keys, a);
  const bool attention = keys.flag_or({"attention_bias"}, false);
  const bool feed_forward = keys.flag_or({"mlp_bias"}, false);
  a.biased = attention && feed_forward;
  a.biased_qkv = attention;
  if (attention && !feed_forward) keys.assume("the bias of attention's last product is left out");
  if (feed_forward && !attention) keys.assume("biases of the feed-forward part are left out");
}

void read_mistral(ConfigKeys& keys, Architecture& a) {
  read_llama(keys, a);
  warn_of_window(keys, a);
}

void read_mixtral(ConfigKeys& keys, Architecture& a) {
  read_mistral(keys, a);
  a.experts.experts = keys.required({"num_local_experts", "num_experts"});
  a.experts.per_token = keys.required({"num_experts_per_tok"});
}

void read_qwen2(ConfigKeys& keys, Architecture& a) {
  read_llama(keys, a);
  a.biased_qkv = true;
  if (keys.has({"use_sliding_window"})) warn_of_window(keys, a);
}

void read_qwen3(ConfigKeys& keys, Architecture& a) {
  read_llama(keys, a);
  a.qk_norm = true;
  if (!keys.has({"head_dim"})) a.head_width = keys.integer_or({"head_dim"}, 128);
}

/// \param shared width of all shared experts together.
void set_shared_experts(ConfigKeys& keys, Architecture& a, std::int64_t shared) {
  const std::int64_t width = a.experts.width;
  a.experts.shared = divided(shared, width);
  if (a.experts.shared * width == shared) return;
  keys.fail("LS-6024",
            "shared_expert_intermediate_size is " + std::to_string(shared) +
                ", no multiple of moe_intermediate_size, " + std::to_string(width),
            "use a multiple of it");
}

void read_qwen2_moe(ConfigKeys& keys, Architecture& a) {
  read_qwen2(keys, a);
  a.biased_qkv = keys.flag_or({"qkv_bias"}, true);
  a.experts.experts = keys.required({"num_experts"});
  a.experts.per_token = keys.required({"num_experts_per_tok"});
  a.experts.width = keys.required({"moe_intermediate_size"});
  a.experts.every = keys.integer_or({"decoder_sparse_step"}, 1);
  a.experts.shared_gate = true;
  set_shared_experts(keys, a, keys.required({"shared_expert_intermediate_size"}));
  if (keys.entries({"mlp_only_layers"}) > 0) {
    keys.assume("experts in the layers of mlp_only_layers too");
  }
}

void read_qwen3_moe(ConfigKeys& keys, Architecture& a) {
  read_qwen3(keys, a);
  a.experts.experts = keys.required({"num_experts"});
  a.experts.per_token = keys.required({"num_experts_per_tok"});
  a.experts.width = keys.required({"moe_intermediate_size"});
  a.experts.every = keys.integer_or({"decoder_sparse_step"}, 1);
  if (keys.entries({"mlp_only_layers"}) > 0) {
    keys.assume("experts in the layers of mlp_only_layers too");
  }
}

void read_gemma(ConfigKeys& keys, Architecture& a) { read_llama(keys, a, true); }

void read_deepseek(ConfigKeys& keys, Architecture& a) {
  read_llama(keys, a);
  a.experts.experts = keys.required({"n_routed_experts"});
  a.experts.per_token = keys.required({"num_experts_per_tok"});
  a.experts.width = keys.required({"moe_intermediate_size"});
  a.experts.shared = keys.integer_or({"n_shared_experts"}, 0);
  a.experts.dense_first = keys.integer_or({"first_k_dense_replace"}, 0);
  if (keys.integer_or({"moe_layer_freq"}, 1) != 1) {
    keys.fail("LS-6024", "moe_layer_freq is not 1",
              "only models with experts in every later layer "
              "are modelled");
  }
}

void read_gpt2(ConfigKeys& keys, Architecture& a) {
  set_sizes(keys, a, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"},
            {"n_head", "num_attention_heads"});
  a.max_positions = keys.required({"n_positions", "max_position_embeddings", "n_ctx"});
  a.feed_forward = keys.has({"n_inner"}) ? keys.required({"n_inner"}) : times(a.width, 4);
  a.relu = keys.text_or({"activation_function"}, "gelu_new") == "relu";
  a.dropout = keys.share_or({"resid_pdrop"}, 0.1);
  a.attention_dropout = keys.share_or({"attn_pdrop"}, 0.1);
  a.tied = keys.flag_or({"tie_word_embeddings"}, true);
  set_sequence(keys, a, a.max_positions);
}

void read_gpt_neox(ConfigKeys& keys, Architecture& a) {
  set_standard_sizes(keys, a);
  a.feed_forward = keys.required({"intermediate_size"});
  a.positions = Positions::rotary;
  a.dropout = keys.share_or({"hidden_dropout"}, 0);
  a.attention_dropout = keys.share_or({"attention_dropout"}, 0);
  a.tied = keys.flag_or({"tie_word_embeddings"}, false);
  if (!keys.flag_or({"attention_bias"}, true)) {
    keys.assume("attention has biases, though attention_bias is false");
  }
  set_sequence(keys, a, keys.required({"max_position_embeddings"}));
}

void read_opt(ConfigKeys& keys, Architecture& a) {
  constexpr std::int64_t kPaddingRows = 2;
  set_sizes(keys, a, {"hidden_size", "d_model"}, {"num_hidden_layers"}, {"num_attention_heads"});
  a.feed_forward = keys.required({"ffn_dim"});
  const std::int64_t most = keys.required({"max_position_embeddings"});
  a.max_positions = (Saturated(most) + kPaddingRows).value();
  const std::int64_t embedding = keys.integer_or({"word_embed_proj_dim"}, a.width);
  a.embedding_width = embedding == a.width ? 0 : embedding;
  a.norm_after = !keys.flag_or({"do_layer_norm_before"}, true);
  a.biased = keys.flag_or({"enable_bias"}, true);
  a.relu = keys.text_or({"activation_function"}, "relu") == "relu";
  a.dropout = keys.share_or({"dropout"}, 0.1);
  a.attention_dropout = keys.share_or({"attention_dropout"}, 0);
  a.tied = keys.flag_or({"tie_word_embeddings"}, true);
  set_sequence(keys, a, most);
}

void read_mpt(ConfigKeys& keys, Architecture& a) {
  set_sizes(keys, a, {"d_model", "hidden_size"}, {"n_layers", "num_hidden_layers"},
            {"n_heads", "num_attention_heads"});
  const std::int64_t ratio = keys.integer_or({"expansion_ratio"}, 4);
  a.feed_forward = times(a.width, ratio);
  a.biased = !keys.flag_or({"no_bias"}, true);
  a.norm_bias = a.biased;
  a.dropout = keys.share_or({"resid_pdrop"}, 0);
  a.tied = keys.flag_or({"tie_word_embeddings"}, true);
  const bool learned = keys.flag_or({"learned_pos_emb"}, true);
  const std::int64_t most = keys.required({"max_seq_len"});
  keys.enter("attn_config");
  a.attention_dropout = keys.share_or({"attn_pdrop"}, 0);
  const bool alibi = keys.flag_or({"alibi"}, true);
  if (keys.has({"kv_n_heads"})) a.kv_heads = keys.required({"kv_n_heads"});
  if (keys.text_or({"attn_type"}, "multihead_attention") == "multiquery_attention") a.kv_heads = 1;
  keys.leave();
  a.positions = learned && !alibi ? Positions::learned : Positions::none;
  a.max_positions = a.positions == Positions::learned ? most : 0;
  set_sequence(keys, a, most);
}

void read_falcon(ConfigKeys& keys, Architecture& a) {
  set_sizes(keys, a, {"hidden_size", "n_embed"}, {"num_hidden_layers", "n_layer"},
            {"num_attention_heads", "n_head"});
  a.feed_forward =
      keys.has({"ffn_hidden_size"}) ? keys.required({"ffn_hidden_size"}) : times(a.width, 4);
  const bool grouped = keys.flag_or({"new_decoder_architecture"}, false);
  const bool one_head = keys.flag_or({"multi_query"}, true);
  if (grouped) a.kv_heads = keys.integer_or({"num_kv_heads", "n_head_kv"}, a.heads);
  if (!grouped && one_head) a.kv_heads = 1;
  const bool side_by_side = keys.flag_or({"parallel_attn"}, true);
  const std::int64_t norms = grouped ? keys.integer_or({"num_ln_in_parallel_attn"}, 2) : 1;
  a.one_norm = side_by_side && norms == 1;
  a.biased = keys.flag_or({"bias"}, false);
  a.dropout = keys.share_or({"hidden_dropout"}, 0);
  a.attention_dropout = keys.share_or({"attention_dropout"}, 0);
  a.tied = keys.flag_or({"tie_word_embeddings"}, true);
  a.positions = keys.flag_or({"alibi"}, false) ? Positions::none : Positions::rotary;
  set_sequence(keys, a, keys.integer_or({"max_position_embeddings"}, 2048));
}

void read_bert(ConfigKeys& keys, Architecture& a) {
  set_standard_sizes(keys, a);
  a.kind = ArchitectureKind::encoder;
  a.norm_after = true;
  a.feed_forward = keys.required({"intermediate_size"});
  a.max_positions = keys.required({"max_position_embeddings"});
  a.token_types = keys.required({"type_vocab_size"});
  a.relu = keys.text_or({"hidden_act"}, "gelu") == "relu";
  a.dropout = keys.share_or({"hidden_dropout_prob"}, 0.1);
  a.attention_dropout = keys.share_or({"attention_probs_dropout_prob"}, 0.1);
  keys.assume(std::string(kPoolerAssumption));
  set_sequence(keys, a, a.max_positions);
}

void read_t5(ConfigKeys& keys, Architecture& a) {
  set_sizes(keys, a, {"d_model", "hidden_size"}, {"num_layers", "num_hidden_layers"},
            {"num_heads", "num_attention_heads"});
  a.kind = ArchitectureKind::encoder_decoder;
  a.decoder_layers = keys.integer_or({"num_decoder_layers"}, a.layers);
  a.head_width = keys.required({"d_kv"});
  a.feed_forward = keys.required({"d_ff"});
  const std::string function = keys.text_or({"feed_forward_proj"}, "relu");
  a.gated = function.starts_with("gated-");
  a.relu = function.ends_with("relu");
  a.rms_norm = true;
  a.biased = false;
  a.positions = Positions::relative;
  a.position_buckets = keys.integer_or({"relative_attention_num_buckets"}, 32);
  a.dropout = keys.share_or({"dropout_rate"}, 0.1);
  a.tied = keys.flag_or({"tie_word_embeddings"}, true);
  set_sequence(keys, a, keys.has({"n_positions"}) ? keys.required({"n_positions"}) : 512);
  keys.assume(std::string(kEqualSidesAssumption));
}

void read_resnet(ConfigKeys& keys, Architecture& a) {
  constexpr std::int64_t kBottleneck = 4;
  a.kind = ArchitectureKind::resnet;
  a.bottleneck = keys.required_text({"layer_type"}) == "bottleneck";
  a.stage_blocks = keys.required_integers({"depths"});
  a.stage_widths = keys.required_integers({"hidden_sizes"});
  for (std::int64_t& width : a.stage_widths) width /= a.bottleneck ? kBottleneck : 1;
  a.image_channels = keys.integer_or({"num_channels"}, 3);
  const std::int64_t stem = keys.required({"embedding_size"});
  if (!a.stage_widths.empty() && stem != a.stage_widths.front()) {
    keys.fail(
        "LS-6024",
        "embedding_size is not that of the first stage, " + std::to_string(a.stage_widths.front()),
        "only networks whose stem is as wide as the first stage are modelled");
  }
  a.classes = keys.has({"num_labels"}) ? keys.required({"num_labels"}) : keys.entries({"id2label"});
  if (a.classes == 0) a.classes = keys.integer_or({"num_labels"}, 2);
  a.image_size = 224;
  keys.assume("images of 224 x 224");
}

// transformers has no such models: the keys are ours (docs/guides/models.md).

void read_mlp(ConfigKeys& keys, Architecture& a) {
  a.kind = ArchitectureKind::mlp;
  a.inputs = keys.required({"inputs"});
  a.hidden = keys.required_integers({"hidden"});
  a.classes = keys.required({"classes"});
}

void read_tables(ConfigKeys& keys, Architecture& a) {
  a.inputs = keys.required({"inputs"});
  a.table_rows = keys.required_integers({"table_rows"});
  a.embedding_width = keys.required({"embedding_width"});
  a.hidden = keys.required_integers({"hidden"});
  a.classes = keys.has({"classes"}) ? keys.required({"classes"}) : 1;
}

void read_dlrm(ConfigKeys& keys, Architecture& a) {
  a.kind = ArchitectureKind::dlrm;
  read_tables(keys, a);
  a.bottom = keys.required_integers({"bottom"});
}

void read_wide_deep(ConfigKeys& keys, Architecture& a) {
  a.kind = ArchitectureKind::wide_deep;
  read_tables(keys, a);
}

struct Type {
  std::string_view name;
  void (*read)(ConfigKeys& keys, Architecture& architecture);
};
constexpr auto kTypes = std::to_array<Type>({{"llama", read_plain_llama},
                                             {"mistral", read_mistral},
                                             {"mixtral", read_mixtral},
                                             {"qwen2", read_qwen2},
                                             {"qwen2_moe", read_qwen2_moe},
                                             {"qwen3", read_qwen3},
                                             {"qwen3_moe", read_qwen3_moe},
                                             {"gemma", read_gemma},
                                             {"deepseek", read_deepseek},
                                             {"gpt2", read_gpt2},
                                             {"gpt_neox", read_gpt_neox},
                                             {"opt", read_opt},
                                             {"mpt", read_mpt},
                                             {"falcon", read_falcon},
                                             {"bert", read_bert},
                                             {"t5", read_t5},
                                             {"resnet", read_resnet},
                                             {"mlp", read_mlp},
                                             {"dlrm", read_dlrm},
                                             {"wide_deep", read_wide_deep}});

const Type* find_type(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const Type& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

void refuse_type(ConfigKeys& keys, const std::string& name) {
  const std::vector<std::string_view> types = hugging_face_types();
  std::string all = "this version reads ";
  for (std::size_t i = 0; i < types.size(); ++i) {
    all += (i > 0 ? ", " : "") + std::string(types[i]);
  }
  const std::string near = nearest_name(name, types);
  keys.fail("LS-6023", "model_type \"" + name + "\" is not known",
            near.empty() ? all : "did you mean " + near + "? " + all);
}

}  // namespace

std::vector<std::string_view> hugging_face_types() {
  std::vector<std::string_view> names;
  for (const Type& type : kTypes) names.push_back(type.name);
  return names;
}

DescribedModel read_hugging_face(std::string_view text, const std::string& where) {
  ConfigKeys keys(text, where);
  DescribedModel model;
  Architecture& a = model.architecture;
  a.name = where;
  const std::string name = keys.required_text({"model_type"});
  if (const Type* type = find_type(name)) {
    type->read(keys, a);
  } else if (keys.problems().empty()) {
    refuse_type(keys, name);
  }
  model.stored_type = keys.text_or({"dtype", "torch_dtype"}, "");
  std::vector<Problem> problems = keys.problems();
  if (problems.empty()) problems = check_architecture(a);
  if (!problems.empty()) throw UsageError(std::move(problems));
  model.assumptions = keys.assumptions();
  return model;
}

}  // namespace lockstep::model
