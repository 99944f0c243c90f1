#include "lockstep/model/stats/hugging_face.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::model {
namespace {

using nlohmann::json;

DescribedModel read(const json& config) { return read_hugging_face(config.dump(), "config.json"); }

std::int64_t parameters_of(const json& config) {
  return architecture_stats(read(config).architecture, 16).parameters();
}

std::vector<Problem> problems_of(const std::string& text) {
  try {
    (void)read_hugging_face(text, "config.json");
  } catch (const UsageError& error) {
    return error.problems();
  }
  ADD_FAILURE() << "nothing is wrong with " << text;
  return {};
}

json changed(json config, const json& changes) {
  config.update(changes);
  return config;
}

const json kLlama = {{"model_type", "llama"},     {"architectures", {"LlamaForCausalLM"}},
                     {"hidden_size", 4096},       {"intermediate_size", 11008},
                     {"num_hidden_layers", 32},   {"num_attention_heads", 32},
                     {"num_key_value_heads", 32}, {"max_position_embeddings", 4096},
                     {"vocab_size", 32000},       {"hidden_act", "silu"},
                     {"attention_bias", false},   {"attention_dropout", 0.0},
                     {"mlp_bias", false},         {"tie_word_embeddings", false},
                     {"rope_theta", 10000.0},     {"rope_scaling", nullptr},
                     {"torch_dtype", "float16"}};

// The numbers are those of the known models, or what huggingface.co says of the others.

TEST(HuggingFace, ReadsLlamaAsTransformersFourAndFiveWriteIt) {
  const DescribedModel four = read(kLlama);
  EXPECT_EQ(four.stored_type, "float16");
  EXPECT_TRUE(four.assumptions.empty()) << four.assumptions.front();
  EXPECT_EQ(four.architecture.default_sequence, 4096);
  EXPECT_EQ(parameters_of(kLlama), 6'738'415'616);
  json five = kLlama;
  for (const char* old : {"rope_theta", "rope_scaling", "torch_dtype"}) five.erase(old);
  five["dtype"] = "bfloat16";
  five["head_dim"] = 128;
  five["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  EXPECT_EQ(read(five).stored_type, "bfloat16");
  EXPECT_EQ(parameters_of(five), 6'738'415'616);
}

TEST(HuggingFace, ReadsLlamasRelatives) {
  const json sizes = {{"hidden_size", 4096},      {"intermediate_size", 14336},
                      {"num_hidden_layers", 32},  {"num_attention_heads", 32},
                      {"num_key_value_heads", 8}, {"max_position_embeddings", 32768},
                      {"vocab_size", 32000},      {"sliding_window", 4096}};
  EXPECT_EQ(parameters_of(changed(sizes, {{"model_type", "mistral"}})), 7'241'732'096);
  EXPECT_EQ(parameters_of(changed(
                sizes,
                {{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}})),
            46'702'792'704);
  EXPECT_EQ(parameters_of({{"model_type", "qwen2"},
                           {"hidden_size", 896},
                           {"intermediate_size", 4864},
                           {"num_hidden_layers", 24},
                           {"num_attention_heads", 14},
                           {"num_key_value_heads", 2},
                           {"max_position_embeddings", 32768},
                           {"vocab_size", 151936},
                           {"tie_word_embeddings", true}}),
            494'032'768);
  EXPECT_EQ(parameters_of({{"model_type", "qwen3"},
                           {"hidden_size", 1024},
                           {"intermediate_size", 3072},
                           {"num_hidden_layers", 28},
                           {"num_attention_heads", 16},
                           {"num_key_value_heads", 8},
                           {"head_dim", 128},
                           {"max_position_embeddings", 40960},
                           {"vocab_size", 151936},
                           {"tie_word_embeddings", true}}),
            596'049'920);
}

TEST(HuggingFace, ReadsSharedExperts) {
  EXPECT_EQ(parameters_of({{"model_type", "qwen2_moe"},
                           {"hidden_size", 2048},
                           {"intermediate_size", 5632},
                           {"num_hidden_layers", 24},
                           {"num_attention_heads", 16},
                           {"num_key_value_heads", 16},
                           {"max_position_embeddings", 8192},
                           {"vocab_size", 151936},
                           {"num_experts", 60},
                           {"num_experts_per_tok", 4},
                           {"moe_intermediate_size", 1408},
                           {"shared_expert_intermediate_size", 5632}}),
            14'315'784'192);
  EXPECT_EQ(parameters_of({{"model_type", "deepseek"},
                           {"hidden_size", 2048},
                           {"intermediate_size", 10944},
                           {"num_hidden_layers", 28},
                           {"num_attention_heads", 16},
                           {"num_key_value_heads", 16},
                           {"max_position_embeddings", 4096},
                           {"vocab_size", 102400},
                           {"n_routed_experts", 64},
                           {"n_shared_experts", 2},
                           {"first_k_dense_replace", 1},
                           {"num_experts_per_tok", 6},
                           {"moe_intermediate_size", 1408}}),
            16'375'728'128);
}

TEST(HuggingFace, ReadsGptsAndTheirRelatives) {
  const json gpt2 = {{"model_type", "gpt2"}, {"n_embd", 768},       {"n_layer", 12},
                     {"n_head", 12},         {"n_positions", 1024}, {"vocab_size", 50257}};
  EXPECT_EQ(parameters_of(gpt2), 124'439'808);
  json spelt = changed(gpt2, {{"hidden_size", 768}});
  spelt.erase("n_embd");
  EXPECT_EQ(parameters_of(spelt), 124'439'808);
  EXPECT_EQ(parameters_of({{"model_type", "gpt_neox"},
                           {"hidden_size", 512},
                           {"intermediate_size", 2048},
                           {"num_hidden_layers", 6},
                           {"num_attention_heads", 8},
                           {"max_position_embeddings", 2048},
                           {"vocab_size", 50304}}),
            70'426'624);
  EXPECT_EQ(parameters_of({{"model_type", "opt"},
                           {"hidden_size", 1024},
                           {"ffn_dim", 4096},
                           {"num_hidden_layers", 24},
                           {"num_attention_heads", 16},
                           {"max_position_embeddings", 2048},
                           {"vocab_size", 50272},
                           {"word_embed_proj_dim", 512},
                           {"do_layer_norm_before", false}}),
            331'196'416);
  EXPECT_EQ(parameters_of({{"model_type", "mpt"},
                           {"d_model", 4096},
                           {"n_layers", 32},
                           {"n_heads", 32},
                           {"max_seq_len", 2048},
                           {"vocab_size", 50432},
                           {"no_bias", true},
                           {"attn_config", {{"alibi", true}}}}),
            6'649'286'656);
  EXPECT_EQ(parameters_of({{"model_type", "falcon"},
                           {"hidden_size", 4544},
                           {"num_hidden_layers", 32},
                           {"num_attention_heads", 71},
                           {"multi_query", true},
                           {"parallel_attn", true},
                           {"bias", false},
                           {"vocab_size", 65024}}),
            6'921'720'704);
}

TEST(HuggingFace, ReadsNormsOfHeadsAndExpertsOfEveryLayer) {
  EXPECT_EQ(parameters_of({{"model_type", "qwen3_moe"},
                           {"hidden_size", 2048},
                           {"intermediate_size", 6144},
                           {"num_hidden_layers", 48},
                           {"num_attention_heads", 32},
                           {"num_key_value_heads", 4},
                           {"head_dim", 128},
                           {"max_position_embeddings", 40960},
                           {"vocab_size", 151936},
                           {"num_experts", 128},
                           {"num_experts_per_tok", 8},
                           {"moe_intermediate_size", 768}}),
            30'532'122'624);
  EXPECT_EQ(parameters_of({{"model_type", "gemma"},
                           {"hidden_size", 2048},
                           {"intermediate_size", 16384},
                           {"num_hidden_layers", 18},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 1},
                           {"head_dim", 256},
                           {"max_position_embeddings", 8192},
                           {"vocab_size", 256000}}),
            2'506'172'416);
}

TEST(HuggingFace, ReadsResidualNetworks) {
  const json resnet50 = {{"model_type", "resnet"},
                         {"embedding_size", 64},
                         {"hidden_sizes", {256, 512, 1024, 2048}},
                         {"depths", {3, 4, 6, 3}},
                         {"layer_type", "bottleneck"},
                         {"num_channels", 3},
                         {"num_labels", 1000}};
  EXPECT_EQ(parameters_of(resnet50), 25'557'032);
  EXPECT_EQ(parameters_of(changed(resnet50, {{"layer_type", "basic"},
                                             {"hidden_sizes", {64, 128, 256, 512}},
                                             {"depths", {2, 2, 2, 2}}})),
            11'689'512);
  json few = changed(resnet50, {{"id2label", {{"0", "cat"}, {"1", "dog"}}}});
  few.erase("num_labels");
  EXPECT_EQ(read(few).architecture.classes, 2);
  EXPECT_EQ(problems_of(changed(resnet50, {{"embedding_size", 32}}).dump()).at(0).code, "LS-6024");
  EXPECT_EQ(problems_of(changed(resnet50, {{"depths", {3, 4}}}).dump()).at(0).code, "LS-6001");
  EXPECT_EQ(problems_of(changed(resnet50, {{"depths", "many"}}).dump()).at(0).code, "LS-6024");
}

TEST(HuggingFace, ReadsKindsOfOurOwnThatTransformersDoesNotHave) {
  EXPECT_EQ(parameters_of(
                {{"model_type", "mlp"}, {"inputs", 784}, {"hidden", {256, 64}}, {"classes", 10}}),
            785 * 256 + 257 * 64 + 65 * 10);
  const json dlrm = {{"model_type", "dlrm"},  {"inputs", 13},       {"table_rows", {1000, 7}},
                     {"embedding_width", 16}, {"bottom", {32, 16}}, {"hidden", {8}}};
  constexpr std::int64_t kFeatures = 3 + 16;  // products of three vectors, and the dense one
  EXPECT_EQ(parameters_of(dlrm), 1007 * 16 + 14 * 32 + 33 * 16 + (kFeatures + 1) * 8 + 9);
  EXPECT_EQ(problems_of(changed(dlrm, {{"bottom", {32}}}).dump()).at(0).code, "LS-6001");
  json deep = changed(dlrm, {{"model_type", "wide_deep"}});
  deep.erase("bottom");
  EXPECT_EQ(parameters_of(deep), 1007 * 17 + 14 + (2 * 16 + 13 + 1) * 8 + 9);
  deep.erase("table_rows");
  EXPECT_EQ(problems_of(deep.dump()).at(0).code, "LS-6024");
}

TEST(HuggingFace, ReadsEncoders) {
  EXPECT_EQ(parameters_of({{"model_type", "bert"},
                           {"hidden_size", 768},
                           {"intermediate_size", 3072},
                           {"num_hidden_layers", 12},
                           {"num_attention_heads", 12},
                           {"max_position_embeddings", 512},
                           {"type_vocab_size", 2},
                           {"vocab_size", 30522}}),
            109'482'240);
  // Version 1.1: gated, with a head of its own.
  EXPECT_EQ(parameters_of({{"model_type", "t5"},
                           {"d_model", 768},
                           {"d_ff", 2048},
                           {"d_kv", 64},
                           {"num_layers", 12},
                           {"num_heads", 12},
                           {"feed_forward_proj", "gated-gelu"},
                           {"tie_word_embeddings", false},
                           {"vocab_size", 32128}}),
            247'577'856);
}

TEST(HuggingFace, SaysWhatItTookBecauseNobodySaid) {
  json config = kLlama;
  config.erase("attention_bias");
  config.erase("tie_word_embeddings");
  config["max_position_embeddings"] = 131072;
  const DescribedModel model = read(config);
  ASSERT_EQ(model.assumptions.size(), 2U);
  EXPECT_EQ(model.assumptions[0],
            "config.json does not say, so as transformers has it: tie_word_embeddings false, "
            "attention_bias false");
  EXPECT_EQ(model.assumptions[1], "samples of 8192 tokens, though the model takes 131072");
  EXPECT_EQ(model.architecture.default_sequence, 8192);
}

TEST(HuggingFace, SaysThatAWindowOfAttentionIsNotModelled) {
  const json config = changed(kLlama, {{"model_type", "mistral"}, {"sliding_window", 1024}});
  const auto said = read(config).assumptions;
  EXPECT_EQ(std::count(said.begin(), said.end(),
                       "attention to all tokens of a sample, not to the last 1024"),
            1);
}

TEST(HuggingFace, FindsAllMissingAndWrongKeysAtOnce) {
  json config = kLlama;
  config.erase("hidden_size");
  config["num_hidden_layers"] = "many";
  config["vocab_size"] = 1.5;
  config["attention_bias"] = 1;
  const auto problems = problems_of(config.dump());
  ASSERT_EQ(problems.size(), 4U);
  for (const Problem& problem : problems) EXPECT_EQ(problem.code, "LS-6024") << problem.what;
  EXPECT_EQ(problems[0].what, "has no key hidden_size");
  EXPECT_EQ(problems[1].what, "num_hidden_layers is string, not a whole number");
}

TEST(HuggingFace, NamesTheTypesItKnows) {
  const auto problems = problems_of(R"({"model_type": "lama"})");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6023");
  EXPECT_TRUE(problems[0].fix.starts_with("did you mean llama? ")) << problems[0].fix;
  EXPECT_EQ(problems_of("{}").at(0).what, "has no key model_type");
}

TEST(HuggingFace, RefusesWhatIsNoObject) {
  EXPECT_EQ(problems_of("").at(0).what, "is not JSON");
  EXPECT_EQ(problems_of("{\"model_type\": ").at(0).code, "LS-6022");
  EXPECT_EQ(problems_of("[1, 2]").at(0).what, "is a JSON array, not an object");
}

TEST(HuggingFace, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(problems_of(changed(kLlama, {{"num_key_value_heads", 5}}).dump()).at(0).code,
            "LS-6003");
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "intermediate_size", "max_position_embeddings"}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}}) {
      EXPECT_FALSE(problems_of(changed(kLlama, {{key, value}}).dump()).empty()) << key;
    }
    if (std::string(key) == "max_position_embeddings") continue;  // only the default is cut
    EXPECT_FALSE(problems_of(changed(kLlama, {{key, huge}}).dump()).empty()) << key;
  }
}

}  // namespace
}  // namespace lockstep::model
