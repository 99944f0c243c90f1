// An encoder as model/stats names its tensors and BERT (Devlin et al. 2019) as Hugging Face's
// transformers keeps it. We stack q, k and v. The heads for masked words, next sentences and
// classes stand under head.mlm, head.nsp and head.fc.
#include "lockstep/checkpoint/names/name_tables.h"

namespace lockstep::checkpoint {
namespace {

constexpr auto kRules = std::to_array<NameRule>({
    {"embed", kNeeded, "embed.wte.weight", {"bert.embeddings.word_embeddings.weight"}},
    {"embed", kNeeded, "embed.wpe.weight", {"bert.embeddings.position_embeddings.weight"}},
    {"embed", kNeeded, "embed.types.weight", {"bert.embeddings.token_type_embeddings.weight"}},
    {"embed", kNeeded, "embed.ln.weight", {"bert.embeddings.LayerNorm.weight"}},
    {"embed", kNeeded, "embed.ln.bias", {"bert.embeddings.LayerNorm.bias"}},
    {.part = "layer",
     .needed = kNeeded,
     .ours = "blocks.{layer}.qkv.weight",
     .theirs = {"bert.encoder.layer.{layer}.attention.self.query.weight",
                "bert.encoder.layer.{layer}.attention.self.key.weight",
                "bert.encoder.layer.{layer}.attention.self.value.weight"},
     .first_rows = "blocks.{layer}.proj.weight",
     .reads_stream = true},
    {.part = "layer",
     .needed = kNeeded,
     .ours = "blocks.{layer}.qkv.bias",
     .theirs = {"bert.encoder.layer.{layer}.attention.self.query.bias",
                "bert.encoder.layer.{layer}.attention.self.key.bias",
                "bert.encoder.layer.{layer}.attention.self.value.bias"},
     .first_rows = "blocks.{layer}.proj.weight"},
    {"layer",
     kNeeded,
     "blocks.{layer}.proj.weight",
     {"bert.encoder.layer.{layer}.attention.output.dense.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.proj.bias",
     {"bert.encoder.layer.{layer}.attention.output.dense.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln1.weight",
     {"bert.encoder.layer.{layer}.attention.output.LayerNorm.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln1.bias",
     {"bert.encoder.layer.{layer}.attention.output.LayerNorm.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.fc1.weight",
     {"bert.encoder.layer.{layer}.intermediate.dense.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.fc1.bias",
     {"bert.encoder.layer.{layer}.intermediate.dense.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.fc2.weight",
     {"bert.encoder.layer.{layer}.output.dense.weight"}},
    {"layer", kNeeded, "blocks.{layer}.fc2.bias", {"bert.encoder.layer.{layer}.output.dense.bias"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln2.weight",
     {"bert.encoder.layer.{layer}.output.LayerNorm.weight"}},
    {"layer",
     kNeeded,
     "blocks.{layer}.ln2.bias",
     {"bert.encoder.layer.{layer}.output.LayerNorm.bias"}},
    {"pooler", kNeeded, "head.pooler.weight", {"bert.pooler.dense.weight"}},
    {"pooler", kNeeded, "head.pooler.bias", {"bert.pooler.dense.bias"}},
    {"words", kNeeded, "head.mlm.fc1.weight", {"cls.predictions.transform.dense.weight"}},
    {"words", kNeeded, "head.mlm.fc1.bias", {"cls.predictions.transform.dense.bias"}},
    {"words", kNeeded, "head.mlm.ln.weight", {"cls.predictions.transform.LayerNorm.weight"}},
    {"words", kNeeded, "head.mlm.ln.bias", {"cls.predictions.transform.LayerNorm.bias"}},
    {"", kOptional, "head.mlm.bias", {"cls.predictions.bias"}},
    {"", kOptional, "head.mlm.fc2.weight", {"cls.predictions.decoder.weight"}},
    {"", kOptional, "head.mlm.fc2.bias", {"cls.predictions.decoder.bias"}},
    {"sentences", kNeeded, "head.nsp.weight", {"cls.seq_relationship.weight"}},
    {"sentences", kNeeded, "head.nsp.bias", {"cls.seq_relationship.bias"}},
    {"classes", kNeeded, "head.fc.weight", {"classifier.weight"}},
    {"classes", kNeeded, "head.fc.bias", {"classifier.bias"}},
});

constexpr auto kTies = std::to_array<Tie>({
    {"embed.wte.weight", "head.mlm.fc2.weight", "bert.embeddings.word_embeddings.weight",
     "cls.predictions.decoder.weight"},
    {"head.mlm.bias", "head.mlm.fc2.bias", "cls.predictions.bias", "cls.predictions.decoder.bias"},
});

constexpr std::string_view kIds = "numbers of positions or types that follow from the sizes";
constexpr auto kUnneeded = std::to_array<Unneeded>(
    {{"bert.embeddings.position_ids", kIds}, {"bert.embeddings.token_type_ids", kIds}});

/// Of files that were made from TensorFlow's.
constexpr auto kSpellings = std::to_array<Spelling>({
    {"LayerNorm.gamma", "LayerNorm.weight"},
    {"LayerNorm.beta", "LayerNorm.bias"},
});

}  // namespace

const NameMap& bert_names() {
  static constexpr NameMap kMap{
      .family = "bert",
      .theirs = "BertModel and its heads of Hugging Face transformers",
      .base_prefix = "bert.",
      .stream = "embed.wte.weight",
      .rules = kRules,
      .ties = kTies,
      .counters = {},
      .unneeded = kUnneeded,
      .spellings = kSpellings,
  };
  return kMap;
}

}  // namespace lockstep::checkpoint
