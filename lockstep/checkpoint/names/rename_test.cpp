#include "lockstep/checkpoint/names/rename.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/names/family_lists_testing.h"

namespace lockstep::checkpoint {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

const NameMap& map_of(const char* family) { return *find_name_map(family); }

std::unique_ptr<RenamedSource> renamed(std::unique_ptr<MemorySource> source, const char* family,
                                       Convention from) {
  Renaming renaming = rename(*source, map_of(family), from, "x");
  return std::make_unique<RenamedSource>(std::move(source), std::move(renaming));
}

std::unique_ptr<RenamedSource> to_ours(std::unique_ptr<MemorySource> source, const char* family) {
  return renamed(std::move(source), family, Convention::theirs);
}

std::unique_ptr<RenamedSource> to_theirs(std::unique_ptr<MemorySource> source, const char* family) {
  return renamed(std::move(source), family, Convention::ours);
}

/// What the refusal says.
std::string fault_of(const TensorSource& source, const char* family, Convention from) {
  try {
    (void)rename(source, map_of(family), from, "x.pt");
    return "";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5015");
    EXPECT_EQ(error.problems()[0].where, "x.pt");
    return error.problems()[0].what + " | " + error.problems()[0].fix;
  }
}

const StoredTensor& tensor(const TensorSource& source, const std::string& name) {
  for (const StoredTensor& tensor : source.tensors()) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range(name);
}

struct Family {
  const char* name;
  const char* theirs;
  const char* ours;
};
class FamilyTest : public testing::TestWithParam<Family> {};

TEST_P(FamilyTest, TheirTensorsHaveOurNamesAndShapes) {
  const auto ours = to_ours(source_of(GetParam().theirs), GetParam().name);
  EXPECT_THAT(lines_of(*ours), ElementsAreArray(split_list(GetParam().ours)));
}

TEST_P(FamilyTest, TheirsAreTheSameAfterAWayThereAndBack) {
  for (const std::size_t chunk : {1U, 7U, 1U << 20U}) {
    const auto bytes = read_all(*source_of(GetParam().theirs));
    auto ours = to_ours(source_of(GetParam().theirs), GetParam().name);
    Renaming back = rename(*ours, map_of(GetParam().name), Convention::ours, "x");
    const RenamedSource again(std::move(ours), std::move(back));
    EXPECT_EQ(read_all(again, chunk), bytes);
  }
}

TEST_P(FamilyTest, OursAreTheSameAfterAWayThereAndBack) {
  for (const std::size_t chunk : {1U, 7U, 1U << 20U}) {
    const auto bytes = read_all(*source_of(GetParam().ours));
    auto theirs = to_theirs(source_of(GetParam().ours), GetParam().name);
    Renaming back = rename(*theirs, map_of(GetParam().name), Convention::theirs, "x");
    const RenamedSource again(std::move(theirs), std::move(back));
    EXPECT_EQ(read_all(again, chunk), bytes);
  }
}

TEST_P(FamilyTest, OfALayerWithoutOneOfItsTensorsThatOneIsNamed) {
  for (const auto& [list, from] : {std::pair{GetParam().theirs, Convention::theirs},
                                   std::pair{GetParam().ours, Convention::ours}}) {
    for (const std::string& line : split_list(list)) {
      const std::string name = parse_line(line).name;
      if (name.find(".1.") == std::string::npos) continue;
      auto source = source_of(list);
      source->remove(name);
      EXPECT_THAT(fault_of(*source, GetParam().name, from), HasSubstr(name + " is missing"));
    }
  }
}

TEST_P(FamilyTest, AnyShapeIsRefusedOrRenamedAndNeverACrash) {
  for (const auto& [list, from] : {std::pair{GetParam().theirs, Convention::theirs},
                                   std::pair{GetParam().ours, Convention::ours}}) {
    for (const std::string& line : split_list(list)) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0}, Shape{0, 1LL << 58},
                                 Shape{1LL << 57, 0}, Shape{5, 5}, Shape{1, 1, 1}}) {
        auto source = std::make_unique<MemorySource>();
        for (const std::string& other : split_list(list)) {
          StoredTensor stored = parse_line(other);
          if (other == line) stored.shape = shape;
          source->add(std::move(stored));
        }
        try {
          (void)read_all(*renamed(std::move(source), GetParam().name, from));
        } catch (const BadData& error) {
          EXPECT_EQ(error.problems()[0].code, "LS-5015");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Names, FamilyTest,
                         testing::Values(Family{"gpt2", kGpt2Theirs, kGpt2Ours},
                                         Family{"llama", kLlamaTheirs, kLlamaOurs},
                                         Family{"bert", kBertTheirs, kBertOurs}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Rename, Gpt2KeepsInputsFirstAndSoIsTurned) {
  const auto theirs = read_all(*source_of(kGpt2Theirs));
  const auto ours = read_all(*to_ours(source_of(kGpt2Theirs), "gpt2"));
  for (const auto& [our, their] : std::map<std::string, std::string>{{"qkv", "attn.c_attn"},
                                                                     {"proj", "attn.c_proj"},
                                                                     {"fc1", "mlp.c_fc"},
                                                                     {"fc2", "mlp.c_proj"}}) {
    const std::string prefix = "transformer.h.1." + their;
    EXPECT_EQ(ours.at("blocks.1." + our + ".weight").bytes,
              turned_over(theirs.at(prefix + ".weight")));
    EXPECT_EQ(ours.at("blocks.1." + our + ".bias"), theirs.at(prefix + ".bias"));
  }
  EXPECT_EQ(ours.at("embed.wte.weight"), theirs.at("transformer.wte.weight"));
}

TEST(Rename, QueriesKeysAndValuesAreStackedInThatOrder) {
  const auto theirs = read_all(*source_of(kLlamaTheirs));
  const auto ours = read_all(*to_ours(source_of(kLlamaTheirs), "llama"));
  std::vector<std::byte> stacked;
  for (const char* part : {"q", "k", "v"}) {
    const auto& bytes =
        theirs.at("model.layers.1.self_attn." + std::string(part) + "_proj.weight").bytes;
    stacked.insert(stacked.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(ours.at("blocks.1.qkv.weight").bytes, stacked);
}

TEST(Rename, BiasesAndNormsOfQueriesThatSomeLlamasHaveAreTaken) {
  const std::string layer = "model.layers.0.self_attn.";
  auto theirs = source_of(kLlamaTheirs);
  theirs->add(layer + "q_proj.bias", {8}).add(layer + "k_proj.bias", {4});
  EXPECT_THAT(fault_of(*theirs, "llama", Convention::theirs),
              HasSubstr(layer + "v_proj.bias is missing"));
  theirs->add(layer + "v_proj.bias", {4}).add(layer + "q_norm.weight", {2});
  const auto bytes = read_all(*theirs);
  auto ours = to_ours(std::move(theirs), "llama");
  EXPECT_THAT(lines_of(*ours), Contains("blocks.0.qkv.bias F32 [16]"));
  EXPECT_THAT(lines_of(*ours), Contains("blocks.0.q_norm.weight F32 [2]"));
  Renaming back = rename(*ours, map_of("llama"), Convention::ours, "x");
  EXPECT_EQ(read_all(RenamedSource(std::move(ours), std::move(back))), bytes);
}

TEST(Rename, AHeadThatIsTheEmbeddingBecomesItsAlias) {
  auto theirs = source_of(kGpt2Theirs);
  const auto wte = read_all(*theirs).at("transformer.wte.weight");
  theirs->add({"lm_head.weight", wte.dtype, wte.shape}, wte.bytes);
  const auto ours = to_ours(std::move(theirs), "gpt2");
  EXPECT_THAT(lines_of(*ours), ElementsAreArray(split_list(kGpt2Ours)));
  EXPECT_THAT(tensor(*ours, "embed.wte.weight").aliases, ElementsAre("head.wte.weight"));
}

TEST(Rename, AHeadOfItsOwnStaysOne) {
  auto theirs = source_of(kGpt2Theirs);
  theirs->add("lm_head.weight", {11, 4});
  const auto ours = to_ours(std::move(theirs), "gpt2");
  EXPECT_EQ(tensor(*ours, "head.fc.weight").shape, (Shape{11, 4}));
  EXPECT_THAT(tensor(*ours, "embed.wte.weight").aliases, IsEmpty());
}

TEST(Rename, AliasesGetTheNamesOfTheOtherConvention) {
  auto ours = std::make_unique<MemorySource>();
  ours->add({"embed.wte.weight", "F32", {11, 4}, "parameter", {"head.wte.weight"}});
  const auto theirs = to_theirs(std::move(ours), "gpt2");
  EXPECT_EQ(tensor(*theirs, "transformer.wte.weight").kind, "parameter");
  EXPECT_THAT(tensor(*theirs, "transformer.wte.weight").aliases, ElementsAre("lm_head.weight"));
  // Whichever of the names the file puts first.
  auto other = std::make_unique<MemorySource>();
  other->add({"lm_head.weight", "F32", {11, 4}, "", {"transformer.wte.weight", "x"}});
  const auto back = to_ours(std::move(other), "gpt2");
  EXPECT_THAT(tensor(*back, "embed.wte.weight").aliases, ElementsAre("head.wte.weight", "x"));
}

TEST(Rename, OurTiedNameStoredTwiceIsOneTensorThere) {
  auto ours = source_of(kGpt2Ours);
  const auto wte = read_all(*ours).at("embed.wte.weight");
  ours->add({"head.wte.weight", wte.dtype, wte.shape}, wte.bytes);
  EXPECT_THAT(lines_of(*to_theirs(std::move(ours), "gpt2")),
              ElementsAreArray(split_list(kGpt2Theirs)));
  auto last_stage = std::make_unique<MemorySource>();
  last_stage->add("head.wte.weight", {11, 4});
  EXPECT_THAT(lines_of(*to_theirs(std::move(last_stage), "gpt2")),
              ElementsAre("lm_head.weight F32 [11, 4]"));
}

TEST(Rename, BertsTiedWordsAndBiasAreAliases) {
  auto theirs = source_of(kBertTheirs);
  const auto bytes = read_all(*theirs);
  const auto& words = bytes.at("bert.embeddings.word_embeddings.weight");
  const auto& bias = bytes.at("cls.predictions.bias");
  theirs->add({"cls.predictions.decoder.weight", "F32", words.shape}, words.bytes);
  theirs->add({"cls.predictions.decoder.bias", "F32", bias.shape}, bias.bytes);
  theirs->add("bert.embeddings.position_ids", {1, 6}, "I64");
  const auto ours = to_ours(std::move(theirs), "bert");
  EXPECT_THAT(lines_of(*ours), ElementsAreArray(split_list(kBertOurs)));
  EXPECT_THAT(tensor(*ours, "embed.wte.weight").aliases, ElementsAre("head.mlm.fc2.weight"));
  EXPECT_THAT(tensor(*ours, "head.mlm.bias").aliases, ElementsAre("head.mlm.fc2.bias"));
  EXPECT_EQ(ours->skipped().back().name, "bert.embeddings.position_ids");
}

TEST(Rename, BaseModelsAndOldSpellingsHaveTheSameNamesWithUs) {
  auto theirs = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(kBertTheirs)) {
    StoredTensor stored = parse_line(line);
    if (stored.name.starts_with("cls.")) continue;
    stored.name.erase(0, std::string("bert.").size());
    if (stored.name.ends_with("LayerNorm.weight")) {
      stored.name.replace(stored.name.size() - 6, 6, "gamma");
    } else if (stored.name.ends_with("LayerNorm.bias")) {
      stored.name.replace(stored.name.size() - 4, 4, "beta");
    }
    theirs->add(std::move(stored));
  }
  const auto ours = split_list(kBertOurs);
  EXPECT_THAT(lines_of(*to_ours(std::move(theirs), "bert")),
              ElementsAreArray(ours.begin(), ours.begin() + 31));
}

TEST_P(FamilyTest, OptimizerStateFollowsItsParameter) {
  auto ours = source_of(GetParam().ours);
  for (const std::string& line : split_list(GetParam().ours)) {
    StoredTensor state = parse_line(line);
    state.name += "/moment1";
    state.kind = "optimizer";
    ours->add(std::move(state));
  }
  const auto bytes = read_all(*ours);
  auto theirs = to_theirs(std::move(ours), GetParam().name);
  for (const std::string& line : split_list(GetParam().theirs)) {
    const std::string name = parse_line(line).name;
    EXPECT_EQ(tensor(*theirs, name + "/moment1").kind, "optimizer");
    EXPECT_EQ(tensor(*theirs, name + "/moment1").shape, tensor(*theirs, name).shape);
  }
  Renaming back = rename(*theirs, map_of(GetParam().name), Convention::theirs, "x");
  EXPECT_EQ(read_all(RenamedSource(std::move(theirs), std::move(back))), bytes);
}

TEST(Rename, TensorsThatTheFamilyDoesNotKnowKeepTheirNames) {
  auto theirs = source_of(kGpt2Theirs);
  theirs->add("score.weight", {2, 4}).add("transformer.h.0.attn.bias", {1, 1, 6, 6}, "U8");
  const auto ours = to_ours(std::move(theirs), "gpt2");
  EXPECT_THAT(lines_of(*ours), Contains("score.weight F32 [2, 4]"));
  EXPECT_EQ(ours->skipped().back().name, "transformer.h.0.attn.bias");
  EXPECT_THAT(ours->notes(), ElementsAre("gpt2: renamed 28 of 30 tensors",
                                         "gpt2 does not know, names kept: score.weight"));
}

TEST(Rename, AFileOfAnotherFamilyIsRefusedAndItsFamilyNamed) {
  EXPECT_EQ(
      fault_of(*source_of(kBertTheirs), "gpt2", Convention::theirs),
      "none of the names is one that gpt2 has in GPT2LMHeadModel of Hugging Face transformers "
      "| they look like those of bert");
  EXPECT_EQ(fault_of(*source_of(kBertTheirs), "llama", Convention::ours),
            "none of the names is one that llama has with us | they look like those of bert");
  MemorySource other;
  other.add("a", {1});
  EXPECT_THAT(fault_of(other, "gpt2", Convention::theirs),
              HasSubstr("the families with a table are gpt2, llama, bert, resnet, "
                        "resnet-torchvision"));
  EXPECT_NE(fault_of(MemorySource(), "gpt2", Convention::theirs), "");
}

TEST(Rename, ALlamaWithExpertsMissesItsFeedForwardPart) {
  auto theirs = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(kLlamaTheirs)) {
    if (line.find(".mlp.") == std::string::npos) theirs->add(parse_line(line));
  }
  EXPECT_THAT(fault_of(*theirs, "llama", Convention::theirs),
              HasSubstr("model.layers.0.mlp.gate_proj.weight is missing"));
}

TEST(Rename, AMatrixThatLiesTheOtherWayRoundIsRefused) {
  auto theirs = std::make_unique<MemorySource>();  // as nanoGPT keeps it
  for (const std::string& line : split_list(kGpt2Theirs)) {
    StoredTensor stored = parse_line(line);
    if (stored.shape.size() == 2 && stored.name.find(".h.") != std::string::npos) {
      std::swap(stored.shape[0], stored.shape[1]);
    }
    theirs->add(std::move(stored));
  }
  EXPECT_THAT(fault_of(*theirs, "gpt2", Convention::theirs),
              HasSubstr("transformer.h.0.attn.c_attn.weight is [12, 4], which does not read the 4 "
                        "numbers that the model is wide"));
}

TEST(Rename, PartsOfDifferentFormsAreNotStacked) {
  auto theirs = source_of(kLlamaTheirs);
  theirs->remove("model.layers.0.self_attn.k_proj.weight");
  theirs->add("model.layers.0.self_attn.k_proj.weight", {4, 6}, "BF16");
  EXPECT_THAT(fault_of(*theirs, "llama", Convention::theirs),
              HasSubstr("blocks.0.qkv.weight: BF16 [4, 6] cannot stand below F32 [8, 6]"));
}

TEST(Rename, AMatrixThatCannotBeCutInThreeIsRefused) {
  auto ours = source_of(kLlamaOurs);
  ours->remove("blocks.1.qkv.weight");
  ours->add("blocks.1.qkv.weight", {15, 6});
  EXPECT_THAT(fault_of(*ours, "llama", Convention::ours),
              HasSubstr("blocks.1.qkv.weight is [15, 6], which cannot be cut in 3 as "
                        "blocks.1.proj.weight [6, 8] says"));
}

TEST(Rename, TwoTensorsOfOneNameAreRefused) {
  auto theirs = source_of(kGpt2Theirs);
  theirs->add("wte.weight", {11, 4});
  EXPECT_THAT(fault_of(*theirs, "gpt2", Convention::theirs),
              HasSubstr("transformer.wte.weight and wte.weight are both transformer.wte.weight"));
  auto kept = source_of(kGpt2Theirs);
  kept->add("embed.wte.weight", {11, 4});
  EXPECT_THAT(fault_of(*kept, "gpt2", Convention::theirs),
              HasSubstr("two tensors would be called embed.wte.weight"));
}

TEST(Rename, NoMoreThanEightFaultsAreListed) {
  MemorySource theirs;
  theirs.add("model.layers.3.input_layernorm.weight", {6});
  EXPECT_THAT(fault_of(theirs, "llama", Convention::theirs), HasSubstr("is missing |"));
  theirs.add("model.layers.4.input_layernorm.weight", {6});
  EXPECT_THAT(fault_of(theirs, "llama", Convention::theirs), HasSubstr("and 8 more"));
}

TEST(Rename, StrippedNamesAndAliasesAreReadFromTheSameTensors) {
  auto source = std::make_unique<MemorySource>();
  source->add({"module.a", "F32", {2}, "", {"module.b"}}).add("module.c", {3});
  const auto bytes = read_all(*source);
  EXPECT_THAT(names_of(*source), ElementsAre("module.a", "module.b", "module.c"));
  const Stripped stripped = strip_prefixes(names_of(*source), {}, "x");
  Renaming renaming = rename_stripped(*source, stripped);
  const RenamedSource shorter(std::move(source), std::move(renaming));
  EXPECT_THAT(lines_of(shorter), ElementsAre("a F32 [2]", "c F32 [3]"));
  EXPECT_THAT(tensor(shorter, "a").aliases, ElementsAre("b"));
  EXPECT_EQ(read_all(shorter).at("c"), bytes.at("module.c"));
  EXPECT_THAT(shorter.notes(), ElementsAre("stripped `module.` from 3 of 3 names"));
}

TEST_P(FamilyTest, WhoseNamesTheyAreIsFound) {
  const NameMap& map = map_of(GetParam().name);
  const auto ours = under_other_names(source_of(GetParam().theirs), map, "x");
  EXPECT_THAT(lines_of(*ours), ElementsAreArray(split_list(GetParam().ours)));
  const auto theirs = under_other_names(source_of(GetParam().ours), map, "x");
  EXPECT_EQ(theirs->tensors().size(), split_list(GetParam().theirs).size());
  EXPECT_THROW((void)under_other_names(source_of("a F32 [1]"), map, "x"), BadData);
}

TEST(Rename, APrefixIsStrippedBeforeAFamilyIsLookedFor) {
  auto source = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(kGpt2Theirs)) {
    StoredTensor stored = parse_line(line);
    stored.name.insert(0, "module._orig_mod.");
    source->add(std::move(stored));
  }
  Renaming plain = rename_stripped(*source, strip_prefixes(names_of(*source), {}, "x"));
  auto stripped = std::make_unique<RenamedSource>(std::move(source), std::move(plain));
  Renaming renaming = rename(*stripped, map_of("gpt2"), Convention::theirs, "x");
  const RenamedSource ours(std::move(stripped), std::move(renaming));
  EXPECT_THAT(lines_of(ours), ElementsAreArray(split_list(kGpt2Ours)));
}

}  // namespace
}  // namespace lockstep::checkpoint
