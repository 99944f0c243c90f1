#include "lockstep/checkpoint/weights/match_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/rename.h"
#include "lockstep/checkpoint/weights/weights_testing.h"
#include "tests/support/problem_of.h"

namespace lockstep::checkpoint {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

WeightsMatch match(std::unique_ptr<TensorSource> source, const std::vector<WantedTensor>& wanted,
                   const WeightsOptions& options = {}, const std::string& family = "gpt") {
  return match_weights(std::move(source), family, wanted, options, "w.pt");
}

Problem fault_of(std::unique_ptr<TensorSource> source, const std::vector<WantedTensor>& wanted,
                 const WeightsOptions& options = {}, const std::string& family = "gpt") {
  return test::problem_of<BadData>(
      [&] { (void)match(std::move(source), wanted, options, family); });
}

/// What a file of our own names gives a model.
std::map<std::string, std::vector<std::byte>> bits_of_list(const std::string& list) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const auto& [name, tensor] : read_all(*source_of(list))) all[name] = tensor.bytes;
  return all;
}

// Names.

TEST(MatchWeights, NamesOfTheModelAreTakenAsTheyAre) {
  const auto wanted = tied_gpt();
  const WeightsMatch found = match(source_of(kGpt2Ours), wanted);
  EXPECT_EQ(all_bits(found, wanted), bits_of_list(kGpt2Ours));
  EXPECT_THAT(found.notes, ElementsAre("weights of w.pt: 28 of 28 tensors"));
  EXPECT_EQ(found.report.matched.size(), 28U);
}

TEST(MatchWeights, PrefixesOfWrappersAndDictsAreStrippedInAnyCombination) {
  const auto wanted = model_of("blocks.0.fc.weight F32 [2, 3]\nhead.fc.weight F32 [4]");
  for (const std::string prefix :
       {"module.", "model.", "_orig_mod.", "_fsdp_wrapped_module.", "module._orig_mod.",
        "_orig_mod.module.", "model.module.", "module.model._orig_mod.", "net.", "backbone.",
        "state_dict.", "state_dict.model.", "model_state_dict.module.", "state_dict._orig_mod.",
        "params.", "app.model.", "_fsdp_wrapped_module._checkpoint_wrapped_module."}) {
    auto source = prefixed("blocks.0.fc.weight F32 [2, 3]\nhead.fc.weight F32 [4]", prefix);
    const auto expected = read_all(*source);
    const WeightsMatch found = match(std::move(source), wanted);
    const auto all = all_bits(found, wanted);
    ASSERT_EQ(all.size(), 2U) << prefix;
    EXPECT_EQ(all.at("head.fc.weight"), expected.at(prefix + "head.fc.weight").bytes) << prefix;
    EXPECT_THAT(found.notes, Contains(HasSubstr("stripped `"))) << prefix;
  }
}

TEST(MatchWeights, MarksInTheMiddleOfNamesAreStripped) {
  auto source = std::make_unique<MemorySource>();
  source->add("module.blocks.0._fsdp_wrapped_module.fc.weight", {2, 3});
  source->add("module.head._checkpoint_wrapped_module.fc.weight", {4});
  const auto wanted = model_of("blocks.0.fc.weight F32 [2, 3]\nhead.fc.weight F32 [4]");
  EXPECT_EQ(match(std::move(source), wanted).report.matched.size(), 2U);
}

TEST(MatchWeights, WhatIsGivenToStripIsStrippedAndNothingElse) {
  const auto wanted = model_of("head.fc.weight F32 [4]");
  const auto source = [] { return prefixed("head.fc.weight F32 [4]", "policy.core."); };
  EXPECT_EQ(match(source(), wanted, {.strip = "policy.,core."}).report.matched.size(), 1U);
  EXPECT_EQ(fault_of(source(), wanted, {.strip = "policy."}).code, "LS-5014");
  EXPECT_EQ(fault_of(prefixed("head.fc.weight F32 [4]", "module."), wanted, {.strip = "none"}).code,
            "LS-5014");
  EXPECT_EQ(
      match(source_of("head.fc.weight F32 [4]"), wanted, {.strip = "none"}).report.matched.size(),
      1U);
}

TEST(MatchWeights, TwoPrefixesThatFitEquallyWellAreRefused) {
  auto source = std::make_unique<MemorySource>();
  source->add("model.head.fc.weight", {4}).add("net.head.fc.weight", {4});
  const auto wanted = model_of("head.fc.weight F32 [4]");
  const Problem fault = fault_of(std::move(source), wanted);
  EXPECT_EQ(fault.code, "LS-5014");
  EXPECT_THAT(fault.fix, HasSubstr("model.weights_strip"));
}

TEST(MatchWeights, WhatIsGivenToStripSettlesWhichOfTwo) {
  auto source = std::make_unique<MemorySource>();
  source->add("model.head.fc.weight", {4}).add("net.head.fc.weight", {4});
  const auto expected = read_all(*source);
  const auto wanted = model_of("head.fc.weight F32 [4]");
  const WeightsMatch found = match(std::move(source), wanted, {.strip = "net."});
  EXPECT_EQ(bits_of(found, 0), expected.at("net.head.fc.weight").bytes);
  EXPECT_THAT(found.notes, Contains(HasSubstr("left out (1): model.head.fc.weight")));
}

// Tables.

TEST(MatchWeights, Gpt2OfHuggingFaceIsTurnedAndRenamed) {
  for (const std::string prefix : {"", "module.", "_orig_mod.", "state_dict.model."}) {
    auto source = prefixed(kGpt2Theirs, prefix);
    source->add(prefix + "transformer.h.0.attn.bias", {1, 1, 6, 6}, "BOOL");
    source->add(prefix + "transformer.h.1.attn.masked_bias", {});
    const auto theirs = read_all(*source);
    const auto wanted = tied_gpt();
    const WeightsMatch found = match(std::move(source), wanted);
    const auto all = all_bits(found, wanted);
    ASSERT_EQ(all.size(), 28U) << prefix;
    EXPECT_EQ(all.at("embed.wte.weight"), theirs.at(prefix + "transformer.wte.weight").bytes);
    for (const auto& [ours, name] : std::map<std::string, std::string>{
             {"blocks.0.qkv.weight", "transformer.h.0.attn.c_attn.weight"},
             {"blocks.1.proj.weight", "transformer.h.1.attn.c_proj.weight"},
             {"blocks.1.fc1.weight", "transformer.h.1.mlp.c_fc.weight"},
             {"blocks.0.fc2.weight", "transformer.h.0.mlp.c_proj.weight"}}) {
      EXPECT_EQ(all.at(ours), turned_over(theirs.at(prefix + name))) << ours;
    }
    EXPECT_EQ(all.at("blocks.1.qkv.bias"),
              theirs.at(prefix + "transformer.h.1.attn.c_attn.bias").bytes);
    EXPECT_THAT(found.notes, Contains("names of GPT2LMHeadModel of Hugging Face transformers"));
    EXPECT_THAT(found.report.unexpected, ElementsAre());
  }
}

TEST(MatchWeights, Gpt2ThatWasSavedWithoutItsHeadLacksAPrefix) {
  std::string list = kGpt2Theirs;
  for (std::size_t at = 0; (at = list.find("transformer.")) != std::string::npos;) {
    list.erase(at, std::string("transformer.").size());
  }
  for (const std::string prefix : {"", "module."}) {
    EXPECT_EQ(match(prefixed(list, prefix), tied_gpt()).report.matched.size(), 28U) << prefix;
  }
}

TEST(MatchWeights, LlamaOfHuggingFaceIsStacked) {
  for (const std::string prefix : {"", "module.", "model."}) {
    auto source = prefixed(kLlamaTheirs, prefix);
    const auto theirs = read_all(*source);
    const auto wanted = model_of(kLlamaOurs);
    const auto all = all_bits(match(std::move(source), wanted, {}, "llama"), wanted);
    ASSERT_EQ(all.size(), wanted.size()) << prefix;
    const std::string attention = prefix + "model.layers.1.self_attn.";
    std::vector<std::byte> stacked;
    for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
      const auto& part = theirs.at(attention + name).bytes;
      stacked.insert(stacked.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all.at("blocks.1.qkv.weight"), stacked);
    EXPECT_EQ(all.at("head.fc.weight"), theirs.at(prefix + "lm_head.weight").bytes);
  }
}

TEST(MatchWeights, AHeadThatIsTiedInTheFileStartsAsACopyOfTheEmbedding) {
  auto source = source_of(kLlamaTheirs);
  source->remove("lm_head.weight");
  const auto wanted = model_of(kLlamaOurs);
  const WeightsMatch found = match(std::move(source), wanted, {}, "llama");
  const auto all = all_bits(found, wanted);
  EXPECT_EQ(all.at("head.fc.weight"), all.at("embed.wte.weight"));
  EXPECT_THAT(found.notes, Contains("head.fc.weight starts as a copy of embed.wte.weight"));
}

TEST(MatchWeights, ResidualNetworksOfOthersAreRenamedAndTheirCountersLeftOut) {
  for (const NameMap* map : {find_name_map("resnet"), find_name_map("resnet-torchvision")}) {
    ASSERT_NE(map, nullptr);
    auto source = under_other_names(source_of(kResnetOurs), *map, "x");
    ASSERT_THAT(lines_of(*source), Contains(HasSubstr("num_batches_tracked I64 []")));
    const auto wanted = model_of(kResnetOurs);
    const WeightsMatch found = match(std::move(source), wanted, {}, "resnet");
    EXPECT_EQ(all_bits(found, wanted), bits_of_list(kResnetOurs)) << map->theirs;
    EXPECT_THAT(found.report.unexpected, ElementsAre());
    EXPECT_THAT(found.notes, Contains("names of " + std::string(map->theirs)));
  }
}

TEST(MatchWeights, CountersBesideOurOwnNamesAreNotMentioned) {
  auto source = source_of(kResnetOurs);
  source->add("stem.bn.num_batches_tracked", {}, "I64");
  EXPECT_THAT(match(std::move(source), model_of(kResnetOurs), {}, "resnet").report.unexpected,
              ElementsAre());
}

TEST(MatchWeights, APartOfAStackedTensorThatIsMissingIsNamed) {
  auto source = source_of(kLlamaTheirs);
  source->remove("model.layers.0.self_attn.k_proj.weight");
  source->remove("model.norm.weight");
  const Problem fault = fault_of(std::move(source), model_of(kLlamaOurs), {}, "llama");
  EXPECT_EQ(fault.code, "LS-5014");
  EXPECT_EQ(fault.what,
            "matched 15 of 17; missing (2): blocks.0.qkv.weight (no "
            "model.layers.0.self_attn.k_proj.weight), head.ln.weight (no model.norm.weight)");
}

TEST(MatchWeights, PartsThatDoNotFitTogetherAreOfAnotherShape) {
  auto source = source_of(kLlamaTheirs);
  source->remove("model.layers.0.self_attn.k_proj.weight");
  source->add("model.layers.0.self_attn.k_proj.weight", {4, 5});
  EXPECT_THAT(fault_of(std::move(source), model_of(kLlamaOurs), {}, "llama").what,
              HasSubstr("of another shape (1): blocks.0.qkv.weight: F32 [4, 5] cannot stand below "
                        "F32 [8, 6]"));
}

TEST(MatchWeights, AMatrixOfTheOtherLayoutIsRefused) {
  auto source = source_of(kGpt2Theirs);  // as torch.nn.Linear would have it
  source->remove("transformer.h.0.attn.c_attn.weight");
  source->add("transformer.h.0.attn.c_attn.weight", {12, 4});
  EXPECT_THAT(fault_of(std::move(source), tied_gpt()).what,
              HasSubstr("of another shape (1): blocks.0.qkv.weight [4, 12] instead of [12, 4]"));
}

TEST(MatchWeights, ATensorWithTwoNamesInTheFileIsDoubtful) {
  auto source = source_of(kGpt2Theirs);
  source->add("wte.weight", {11, 4});
  EXPECT_THAT(fault_of(std::move(source), tied_gpt()).what,
              HasSubstr("matched 28 of 28; doubtful (1): transformer.wte.weight and wte.weight are "
                        "one tensor's names"));
}

// Ties.

TEST(MatchWeights, ATiedMatrixMayBeStoredUnderEitherNameOrTwice) {
  const auto wanted = tied_gpt();
  const auto expected = read_all(*source_of(kGpt2Theirs)).at("transformer.wte.weight").bytes;
  for (const bool theirs : {false, true}) {
    const std::string first = theirs ? "transformer.wte.weight" : "embed.wte.weight";
    const std::string second = theirs ? "lm_head.weight" : "head.wte.weight";
    for (const int form : {0, 1, 2}) {
      auto source = source_of(theirs ? kGpt2Theirs : kGpt2Ours);
      source->remove(first);
      if (form == 0) source->add({second, "F32", {11, 4}}, expected);
      if (form == 1) source->add({first, "F32", {11, 4}, "", {second}}, expected);
      if (form == 2) {
        source->add({first, "F32", {11, 4}}, expected).add({second, "F32", {11, 4}}, expected);
      }
      const WeightsMatch found = match(std::move(source), wanted);
      EXPECT_EQ(all_bits(found, wanted).at("embed.wte.weight"), expected) << second << form;
      EXPECT_EQ(found.report.matched.size(), 28U);
      EXPECT_THAT(found.report.unexpected, ElementsAre());
    }
  }
}

TEST(MatchWeights, AHeadOfItsOwnIsNoTiedOne) {
  for (const bool theirs : {false, true}) {
    const auto source = [&] {
      auto made = source_of(theirs ? kGpt2Theirs : kGpt2Ours);
      made->add(theirs ? "lm_head.weight" : "head.wte.weight", {11, 4});
      return made;
    };
    EXPECT_THAT(fault_of(source(), tied_gpt()).what,
                HasSubstr("doubtful (1): head.wte.weight is not the tensor embed.wte.weight, as "
                          "which the model uses it"));
    const WeightsMatch found = match(source(), tied_gpt(), {.partial = true});
    EXPECT_THAT(found.notes, Contains(HasSubstr("doubtful (1): head.wte.weight")));
    EXPECT_EQ(found.report.matched.size(), 28U);
  }
}

// What does not fit.

TEST(MatchWeights, EverythingThatDoesNotFitIsSaidAtOnce) {
  auto source = std::make_unique<MemorySource>();
  source->add("a", {2}).add("b", {3}).add("c", {2}, "I8").add("x", {1});
  const auto wanted = model_of("a F32 [2]\nb F32 [2]\nc F32 [2]\nd F32 [2]");
  const Problem fault = fault_of(std::move(source), wanted);
  EXPECT_EQ(fault.code, "LS-5014");
  EXPECT_EQ(fault.where, "w.pt");
  EXPECT_EQ(fault.what,
            "matched 1 of 4; missing (1): d; of another shape (1): b [3] instead of [2]; of "
            "another type (1): c I8, which is no type that weights are read from; unexpected (1): "
            "x");
  EXPECT_THAT(fault.fix, HasSubstr("model.weights_partial = true"));
}

TEST(MatchWeights, APartialLoadLeavesTheRestAsItIsAndSaysSo) {
  auto source = std::make_unique<MemorySource>();
  source->add("a", {2}).add("b", {3}).add("c", {2}, "I8").add("x", {1});
  const auto wanted = model_of("a F32 [2]\nb F32 [2]\nc F32 [2]\nd F32 [2]");
  const WeightsMatch found = match(std::move(source), wanted, {.partial = true});
  EXPECT_EQ(all_bits(found, wanted).size(), 1U);
  EXPECT_THAT(
      found.notes,
      ElementsAre("weights of w.pt: 1 of 4 tensors", "as initialised, missing (1): d",
                  "as initialised, of another shape (1): b [3] instead of [2]",
                  "as initialised, of another type (1): c I8, which is no type that weights are "
                  "read from",
                  "not of this model, left out (1): x"));
}

TEST(MatchWeights, WhatTheModelDoesNotHaveIsOnlyNoted) {
  auto source = source_of(kGpt2Ours);
  for (int i = 0; i < 20; ++i) source->add("blocks.2.more." + std::to_string(i), {1});
  const WeightsMatch found = match(std::move(source), tied_gpt());
  EXPECT_THAT(found.notes.back(),
              StartsWith("not of this model, left out (20): blocks.2.more.0, "));
  EXPECT_THAT(found.notes.back(), HasSubstr("blocks.2.more.7 and 12 more"));
}

TEST(MatchWeights, NothingMatchedIsRefusedEvenInAPartialLoad) {
  std::vector<WantedTensor> wanted;
  for (int i = 0; i < 122; ++i) wanted.push_back({"a." + std::to_string(i), "F32", {2}});
  auto source = std::make_unique<MemorySource>();
  for (int i = 0; i < 122; ++i) source->add("policy.core.a." + std::to_string(i), {2});
  const Problem fault = fault_of(std::move(source), wanted, {.partial = true});
  EXPECT_EQ(fault.code, "LS-5014");
  EXPECT_THAT(fault.what,
              StartsWith("matched 0 of 122; did you mean to strip `policy.core.`?; missing (122): "
                         "a.0, a.1, a.2, a.3, a.4, a.5, a.6, a.7 and 114 more; unexpected (122)"));
  EXPECT_EQ(fault.fix, "set model.weights_strip = \"policy.core.\"");
}

TEST(MatchWeights, APrefixBeforeNamesOfATableIsNamedToo) {
  EXPECT_EQ(fault_of(prefixed(kGpt2Theirs, "policy."), tied_gpt()).fix,
            "set model.weights_strip = \"policy.\"");
  EXPECT_EQ(match(prefixed(kGpt2Theirs, "policy."), tied_gpt(), {.strip = "policy."})
                .report.matched.size(),
            28U);
}

TEST(MatchWeights, NamesOfAnotherFamilyAreCalledSo) {
  const Problem fault = fault_of(source_of(kLlamaTheirs), tied_gpt(), {.partial = true});
  EXPECT_THAT(fault.what,
              StartsWith("matched 0 of 28; the names are those of LlamaForCausalLM of Hugging Face "
                         "transformers, and the model is a gpt; "));
}

TEST(MatchWeights, AFileWithoutWeightsIsCalledSo) {
  auto source = std::make_unique<MemorySource>();
  source->add("optimizer.state.0.exp_avg", {2}).add("state.0.exp_avg_sq", {2});
  const auto wanted = model_of("a F32 [2]");
  EXPECT_THAT(fault_of(std::move(source), wanted, {.partial = true}).what,
              StartsWith("matched 0 of 1; it holds optimizer state alone; "));
  EXPECT_THAT(fault_of(std::make_unique<MemorySource>(), wanted).what,
              StartsWith("matched 0 of 1; it holds no tensor; "));
}

TEST(MatchWeights, ShapesThatAllDifferMatchNothing) {
  const Problem fault = fault_of(source_of("a F32 [3]"), model_of("a F32 [2]"), {.partial = true});
  EXPECT_EQ(fault.what, "matched 0 of 1; of another shape (1): a [3] instead of [2]");
}

TEST(MatchWeights, WhyAReaderLeftATensorOutIsSaid) {
  auto source = source_of("a F32 [2]");
  const auto wanted = model_of("a F32 [2]\nrng_state F32 [2]");
  EXPECT_THAT(fault_of(std::move(source), wanted).what,
              HasSubstr("missing (1): rng_state (no tensor)"));
}

TEST(MatchWeights, AModelWithoutTensorsTakesNothing) {
  EXPECT_TRUE(match(source_of("a F32 [2]"), {}).views.empty());
}

// Optimizer state.

TEST(MatchWeights, OptimizerStateIsPassedOver) {
  auto source = prefixed(kGpt2Ours, "model.");
  source->add("optimizer.state.0.exp_avg", {11, 4});
  source->add("optim.state.model.embed.wte.weight.exp_avg_sq", {11, 4});
  source->add("app.optim.state.0.step", {});
  source->add("optimizer_states.0.state.0.momentum_buffer", {11, 4});
  source->add("model.embed.wte.weight/moment1", {11, 4});
  source->add({"x", "F32", {2}, "optimizer"});
  const WeightsMatch found = match(std::move(source), tied_gpt());
  EXPECT_EQ(found.report.matched.size(), 28U);
  EXPECT_THAT(found.report.unexpected, ElementsAre());
  EXPECT_THAT(found.notes.back(), "optimizer state left out: 6 tensors");
}

TEST(MatchWeights, ATensorOfTheModelIsNeverTakenForOptimizerState) {
  const std::string list = "optimizer.fc.weight F32 [2]";
  const auto wanted = model_of(list);
  EXPECT_EQ(match(source_of(list), wanted).report.matched.size(), 1U);
}

// Types and shapes.

TEST(MatchWeights, AnyFloatingPointTypeFitsAndIsNoted) {
  const std::vector<std::string> types{"BF16", "F16", "F64", "F8_E4M3", "F8_E5M2"};
  for (const std::string& type : types) {
    auto source = source_of("a " + type + " [2, 2]\nb F32 [1]");
    const WeightsMatch found = match(std::move(source), model_of("a F32 [2, 2]\nb F32 [1]"));
    EXPECT_THAT(found.notes, Contains(type + " becomes F32: 1 tensor"));
  }
}

TEST(MatchWeights, TypesThatAreNoWeightsAreRefused) {
  for (const std::string type : {"I8", "I64", "U8", "BOOL", "F8_E8M0", "C64", "F4"}) {
    const Problem fault = fault_of(source_of("a " + type + " [2, 2]\nb F32 [1]"),
                                   model_of("a F32 [2, 2]\nb F32 [1]"));
    EXPECT_THAT(fault.what, HasSubstr("of another type (1): a " + type + ", which is no type"));
  }
}

TEST(MatchWeights, EightBitsThatHaveToBeScaledAreRefused) {
  for (const std::string scale :
       {"fc.weight_scale_inv", "fc.weight_scale", "fc.scale", "fc.weight.scale"}) {
    auto source =
        source_of("model.fc.weight F8_E4M3 [2, 2]\nmodel.b F32 [1]\nmodel." + scale + " F32 [1]");
    EXPECT_THAT(
        fault_of(std::move(source), model_of("fc.weight F32 [2, 2]\nb F32 [1]")).what,
        HasSubstr("of another type (1): fc.weight F8_E4M3 that " + scale + " would have to scale"));
  }
}

TEST(MatchWeights, TheFirstPositionsAreEnoughForShorterSamples) {
  auto wanted = tied_gpt();
  wanted[1].shape = {4, 4};
  for (const char* list : {kGpt2Ours, kGpt2Theirs}) {
    auto source = source_of(list);
    const auto stored = read_all(*source);
    const bool is_ours = list == std::string(kGpt2Ours);
    auto bytes = stored.at(is_ours ? "embed.wpe.weight" : "transformer.wpe.weight").bytes;
    bytes.resize(64);
    const WeightsMatch found = match(std::move(source), wanted);
    EXPECT_EQ(bits_of(found, 1), bytes);
    EXPECT_THAT(found.notes, Contains("the model has the first 4 of 6 positions"));
  }
}

TEST(MatchWeights, MorePositionsThanTheFileHasAreAnotherShape) {
  auto wanted = tied_gpt();
  wanted[1].shape = {8, 4};
  EXPECT_THAT(fault_of(source_of(kGpt2Ours), wanted).what,
              HasSubstr("embed.wpe.weight [6, 4] instead of [8, 4]"));
}

/// Claims what no machine could hold. Reading it is an error of the caller.
class HugeSource : public TensorSource {
 public:
  HugeSource(const std::string& prefix, const Shape& shape, const std::string& list) {
    for (const std::string& line : split_list(list)) {
      StoredTensor tensor = parse_line(line);
      tensors_.push_back({prefix + tensor.name, "F8_E4M3", shape});
    }
  }
  [[nodiscard]] std::string_view format() const override { return "memory"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t, std::uint64_t, std::span<std::byte>) const override {
    throw Bug(__FILE__, __LINE__, "nobody may read this");
  }

 private:
  std::vector<StoredTensor> tensors_;
};

TEST(MatchWeights, ShapesThatNobodyCanHoldAreOtherShapes) {
  const std::int64_t large = std::int64_t{1} << 60;  // three of them are more than can be counted
  for (const Shape& shape : {Shape{large}, Shape{large / 2, 2}, Shape{1, large}, Shape{large, 1, 1},
                             Shape{0}, Shape{0, large}, Shape{}}) {
    ASSERT_TRUE(tensor_bytes("F8_E4M3", shape).has_value());
    for (const auto& [family, theirs, ours] :
         {std::tuple{"gpt", kGpt2Theirs, kGpt2Ours}, std::tuple{"llama", kLlamaTheirs, kLlamaOurs},
          std::tuple{"gpt", kGpt2Ours, kGpt2Ours}}) {
      auto source = std::make_unique<HugeSource>("module.", shape, theirs);
      const Problem fault = fault_of(std::move(source), model_of(ours), {.partial = true}, family);
      EXPECT_EQ(fault.code, "LS-5014") << to_text(shape);
      EXPECT_THAT(fault.what, HasSubstr("matched 0 of "));
      EXPECT_THAT(fault.what, HasSubstr("of another shape ("));
    }
  }
}

TEST(MatchWeights, NamesOfAnyKindAreBorne) {
  auto source = std::make_unique<MemorySource>();
  for (const std::string name : {"", ".", "..", "module.", "module", "/", "a/", "/a", "model..x",
                                 "state_dict.", "transformer.h.99999999999.ln_1.weight"}) {
    source->add(name, {1});
  }
  source->add("module.a", {2});
  const auto wanted = model_of("a F32 [2]");
  EXPECT_EQ(match(std::move(source), wanted).report.matched.size(), 1U);
}

}  // namespace
}  // namespace lockstep::checkpoint
