// Tensors of tiny models of each family, written down by hand: a line is "name DTYPE [shape]".
// What a class of Hugging Face or torchvision has, in the order of its state dict, and what those
// are with us.
#pragma once
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/checkpoint/names/memory_source_testing.h"

namespace lockstep::checkpoint {

// 11 tokens, 6 positions, 4 wide, 2 layers.
inline constexpr const char* kGpt2Theirs = R"(transformer.wte.weight F32 [11, 4]
transformer.wpe.weight F32 [6, 4]
transformer.h.0.ln_1.weight F32 [4]
transformer.h.0.ln_1.bias F32 [4]
transformer.h.0.attn.c_attn.weight F32 [4, 12]
transformer.h.0.attn.c_attn.bias F32 [12]
transformer.h.0.attn.c_proj.weight F32 [4, 4]
transformer.h.0.attn.c_proj.bias F32 [4]
transformer.h.0.ln_2.weight F32 [4]
transformer.h.0.ln_2.bias F32 [4]
transformer.h.0.mlp.c_fc.weight F32 [4, 16]
transformer.h.0.mlp.c_fc.bias F32 [16]
transformer.h.0.mlp.c_proj.weight F32 [16, 4]
transformer.h.0.mlp.c_proj.bias F32 [4]
transformer.h.1.ln_1.weight F32 [4]
transformer.h.1.ln_1.bias F32 [4]
transformer.h.1.attn.c_attn.weight F32 [4, 12]
transformer.h.1.attn.c_attn.bias F32 [12]
transformer.h.1.attn.c_proj.weight F32 [4, 4]
transformer.h.1.attn.c_proj.bias F32 [4]
transformer.h.1.ln_2.weight F32 [4]
transformer.h.1.ln_2.bias F32 [4]
transformer.h.1.mlp.c_fc.weight F32 [4, 16]
transformer.h.1.mlp.c_fc.bias F32 [16]
transformer.h.1.mlp.c_proj.weight F32 [16, 4]
transformer.h.1.mlp.c_proj.bias F32 [4]
transformer.ln_f.weight F32 [4]
transformer.ln_f.bias F32 [4])";
inline constexpr const char* kGpt2Ours = R"(embed.wte.weight F32 [11, 4]
embed.wpe.weight F32 [6, 4]
blocks.0.ln1.weight F32 [4]
blocks.0.ln1.bias F32 [4]
blocks.0.qkv.weight F32 [12, 4]
blocks.0.qkv.bias F32 [12]
blocks.0.proj.weight F32 [4, 4]
blocks.0.proj.bias F32 [4]
blocks.0.ln2.weight F32 [4]
blocks.0.ln2.bias F32 [4]
blocks.0.fc1.weight F32 [16, 4]
blocks.0.fc1.bias F32 [16]
blocks.0.fc2.weight F32 [4, 16]
blocks.0.fc2.bias F32 [4]
blocks.1.ln1.weight F32 [4]
blocks.1.ln1.bias F32 [4]
blocks.1.qkv.weight F32 [12, 4]
blocks.1.qkv.bias F32 [12]
blocks.1.proj.weight F32 [4, 4]
blocks.1.proj.bias F32 [4]
blocks.1.ln2.weight F32 [4]
blocks.1.ln2.bias F32 [4]
blocks.1.fc1.weight F32 [16, 4]
blocks.1.fc1.bias F32 [16]
blocks.1.fc2.weight F32 [4, 16]
blocks.1.fc2.bias F32 [4]
head.ln.weight F32 [4]
head.ln.bias F32 [4])";

// 4 heads of 2, of which 2 have keys and values; 6 wide.
inline constexpr const char* kLlamaTheirs = R"(model.embed_tokens.weight F32 [11, 6]
model.layers.0.self_attn.q_proj.weight F32 [8, 6]
model.layers.0.self_attn.k_proj.weight F32 [4, 6]
model.layers.0.self_attn.v_proj.weight F32 [4, 6]
model.layers.0.self_attn.o_proj.weight F32 [6, 8]
model.layers.0.mlp.gate_proj.weight F32 [10, 6]
model.layers.0.mlp.up_proj.weight F32 [10, 6]
model.layers.0.mlp.down_proj.weight F32 [6, 10]
model.layers.0.input_layernorm.weight F32 [6]
model.layers.0.post_attention_layernorm.weight F32 [6]
model.layers.1.self_attn.q_proj.weight F32 [8, 6]
model.layers.1.self_attn.k_proj.weight F32 [4, 6]
model.layers.1.self_attn.v_proj.weight F32 [4, 6]
model.layers.1.self_attn.o_proj.weight F32 [6, 8]
model.layers.1.mlp.gate_proj.weight F32 [10, 6]
model.layers.1.mlp.up_proj.weight F32 [10, 6]
model.layers.1.mlp.down_proj.weight F32 [6, 10]
model.layers.1.input_layernorm.weight F32 [6]
model.layers.1.post_attention_layernorm.weight F32 [6]
model.norm.weight F32 [6]
lm_head.weight F32 [11, 6])";
inline constexpr const char* kLlamaOurs = R"(embed.wte.weight F32 [11, 6]
blocks.0.qkv.weight F32 [16, 6]
blocks.0.proj.weight F32 [6, 8]
blocks.0.gate.weight F32 [10, 6]
blocks.0.up.weight F32 [10, 6]
blocks.0.down.weight F32 [6, 10]
blocks.0.ln1.weight F32 [6]
blocks.0.ln2.weight F32 [6]
blocks.1.qkv.weight F32 [16, 6]
blocks.1.proj.weight F32 [6, 8]
blocks.1.gate.weight F32 [10, 6]
blocks.1.up.weight F32 [10, 6]
blocks.1.down.weight F32 [6, 10]
blocks.1.ln1.weight F32 [6]
blocks.1.ln2.weight F32 [6]
head.ln.weight F32 [6]
head.fc.weight F32 [11, 6])";

// BertModel below a head for masked words and one for next sentences, without what is tied.
inline constexpr const char* kBertTheirs = R"(bert.embeddings.word_embeddings.weight F32 [11, 4]
bert.embeddings.position_embeddings.weight F32 [6, 4]
bert.embeddings.token_type_embeddings.weight F32 [2, 4]
bert.embeddings.LayerNorm.weight F32 [4]
bert.embeddings.LayerNorm.bias F32 [4]
bert.encoder.layer.0.attention.self.query.weight F32 [4, 4]
bert.encoder.layer.0.attention.self.query.bias F32 [4]
bert.encoder.layer.0.attention.self.key.weight F32 [4, 4]
bert.encoder.layer.0.attention.self.key.bias F32 [4]
bert.encoder.layer.0.attention.self.value.weight F32 [4, 4]
bert.encoder.layer.0.attention.self.value.bias F32 [4]
bert.encoder.layer.0.attention.output.dense.weight F32 [4, 4]
bert.encoder.layer.0.attention.output.dense.bias F32 [4]
bert.encoder.layer.0.attention.output.LayerNorm.weight F32 [4]
bert.encoder.layer.0.attention.output.LayerNorm.bias F32 [4]
bert.encoder.layer.0.intermediate.dense.weight F32 [8, 4]
bert.encoder.layer.0.intermediate.dense.bias F32 [8]
bert.encoder.layer.0.output.dense.weight F32 [4, 8]
bert.encoder.layer.0.output.dense.bias F32 [4]
bert.encoder.layer.0.output.LayerNorm.weight F32 [4]
bert.encoder.layer.0.output.LayerNorm.bias F32 [4]
bert.encoder.layer.1.attention.self.query.weight F32 [4, 4]
bert.encoder.layer.1.attention.self.query.bias F32 [4]
bert.encoder.layer.1.attention.self.key.weight F32 [4, 4]
bert.encoder.layer.1.attention.self.key.bias F32 [4]
bert.encoder.layer.1.attention.self.value.weight F32 [4, 4]
bert.encoder.layer.1.attention.self.value.bias F32 [4]
bert.encoder.layer.1.attention.output.dense.weight F32 [4, 4]
bert.encoder.layer.1.attention.output.dense.bias F32 [4]
bert.encoder.layer.1.attention.output.LayerNorm.weight F32 [4]
bert.encoder.layer.1.attention.output.LayerNorm.bias F32 [4]
bert.encoder.layer.1.intermediate.dense.weight F32 [8, 4]
bert.encoder.layer.1.intermediate.dense.bias F32 [8]
bert.encoder.layer.1.output.dense.weight F32 [4, 8]
bert.encoder.layer.1.output.dense.bias F32 [4]
bert.encoder.layer.1.output.LayerNorm.weight F32 [4]
bert.encoder.layer.1.output.LayerNorm.bias F32 [4]
bert.pooler.dense.weight F32 [4, 4]
bert.pooler.dense.bias F32 [4]
cls.predictions.bias F32 [11]
cls.predictions.transform.dense.weight F32 [4, 4]
cls.predictions.transform.dense.bias F32 [4]
cls.predictions.transform.LayerNorm.weight F32 [4]
cls.predictions.transform.LayerNorm.bias F32 [4]
cls.seq_relationship.weight F32 [2, 4]
cls.seq_relationship.bias F32 [2])";
inline constexpr const char* kBertOurs = R"(embed.wte.weight F32 [11, 4]
embed.wpe.weight F32 [6, 4]
embed.types.weight F32 [2, 4]
embed.ln.weight F32 [4]
embed.ln.bias F32 [4]
blocks.0.qkv.weight F32 [12, 4]
blocks.0.qkv.bias F32 [12]
blocks.0.proj.weight F32 [4, 4]
blocks.0.proj.bias F32 [4]
blocks.0.ln1.weight F32 [4]
blocks.0.ln1.bias F32 [4]
blocks.0.fc1.weight F32 [8, 4]
blocks.0.fc1.bias F32 [8]
blocks.0.fc2.weight F32 [4, 8]
blocks.0.fc2.bias F32 [4]
blocks.0.ln2.weight F32 [4]
blocks.0.ln2.bias F32 [4]
blocks.1.qkv.weight F32 [12, 4]
blocks.1.qkv.bias F32 [12]
blocks.1.proj.weight F32 [4, 4]
blocks.1.proj.bias F32 [4]
blocks.1.ln1.weight F32 [4]
blocks.1.ln1.bias F32 [4]
blocks.1.fc1.weight F32 [8, 4]
blocks.1.fc1.bias F32 [8]
blocks.1.fc2.weight F32 [4, 8]
blocks.1.fc2.bias F32 [4]
blocks.1.ln2.weight F32 [4]
blocks.1.ln2.bias F32 [4]
head.pooler.weight F32 [4, 4]
head.pooler.bias F32 [4]
head.mlm.bias F32 [11]
head.mlm.fc1.weight F32 [4, 4]
head.mlm.fc1.bias F32 [4]
head.mlm.ln.weight F32 [4]
head.mlm.ln.bias F32 [4]
head.nsp.weight F32 [2, 4]
head.nsp.bias F32 [2])";

// A stem and two stages of one basic block, the second with a shortcut.
inline constexpr const char* kResnetOurs = R"(stem.conv.weight F32 [2, 3, 3, 3]
stem.bn.weight F32 [2]
stem.bn.bias F32 [2]
stem.bn.running_mean F32 [2]
stem.bn.running_var F32 [2]
stage1.0.conv1.weight F32 [2, 2, 3, 3]
stage1.0.bn1.weight F32 [2]
stage1.0.bn1.bias F32 [2]
stage1.0.bn1.running_mean F32 [2]
stage1.0.bn1.running_var F32 [2]
stage1.0.conv2.weight F32 [2, 2, 3, 3]
stage1.0.bn2.weight F32 [2]
stage1.0.bn2.bias F32 [2]
stage1.0.bn2.running_mean F32 [2]
stage1.0.bn2.running_var F32 [2]
stage2.0.shortcut_conv.weight F32 [4, 2, 1, 1]
stage2.0.shortcut_bn.weight F32 [4]
stage2.0.shortcut_bn.bias F32 [4]
stage2.0.shortcut_bn.running_mean F32 [4]
stage2.0.shortcut_bn.running_var F32 [4]
stage2.0.conv1.weight F32 [4, 2, 3, 3]
stage2.0.bn1.weight F32 [4]
stage2.0.bn1.bias F32 [4]
stage2.0.bn1.running_mean F32 [4]
stage2.0.bn1.running_var F32 [4]
stage2.0.conv2.weight F32 [4, 4, 3, 3]
stage2.0.bn2.weight F32 [4]
stage2.0.bn2.bias F32 [4]
stage2.0.bn2.running_mean F32 [4]
stage2.0.bn2.running_var F32 [4]
head.fc.weight F32 [10, 4]
head.fc.bias F32 [10])";

/// "name DTYPE [shape]" as a tensor.
inline StoredTensor parse_line(const std::string& line) {
  std::istringstream in(line);
  StoredTensor tensor;
  in >> tensor.name >> tensor.dtype;
  in.ignore(2);  // " ["
  for (std::int64_t dim = 0; in >> dim; in.ignore(1)) tensor.shape.push_back(dim);
  return tensor;
}

inline std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> lines;
  std::istringstream in(list);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::unique_ptr<MemorySource> source_of(const std::string& list) {
  auto source = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(list)) source->add(parse_line(line));
  return source;
}

}  // namespace lockstep::checkpoint
