#include "lockstep/checkpoint/names/prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Names = std::vector<std::string>;

const Names kModel{"embed.wte.weight", "blocks.0.ln1.weight", "blocks.0.qkv.weight",
                   "head.fc.bias"};

Names with(const std::string& prefix, const Names& names = kModel) {
  Names longer;
  for (const std::string& name : names) longer.push_back(prefix + name);
  return longer;
}

Stripped strip(const Names& names, const Names& wanted = {}) {
  return strip_prefixes(names, wanted, "x.pt");
}

TEST(Prefixes, EveryCombinationIsStrippedForAModelThatIsKnown) {
  const Names parts{
      "module.", "_orig_mod.", "model.",   "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
      "net.",    "network.",   "backbone."};
  for (const std::string& a : parts) {
    EXPECT_EQ(strip(with(a), kModel).names, kModel) << a;
    for (const std::string& b : parts) {
      EXPECT_EQ(strip(with(a + b), kModel).names, kModel) << a << b;
      for (const std::string& c : parts) {
        EXPECT_EQ(strip(with(a + b + c), kModel).names, kModel) << a << b << c;
      }
    }
  }
}

TEST(Prefixes, NamesThatAreTheModelsStayAsTheyAre) {
  for (const std::string prefix : {"", "module.", "model.", "_orig_mod.", "module._orig_mod."}) {
    const Names wanted = with(prefix);
    const Stripped same = strip(wanted, wanted);
    EXPECT_EQ(same.names, wanted);
    EXPECT_THAT(same.notes, IsEmpty());
    EXPECT_THAT(same.prefixes, IsEmpty());
  }
}

TEST(Prefixes, ANoteSaysWhatWasStrippedFromHowMany) {
  const Stripped stripped = strip(with("module."), kModel);
  EXPECT_THAT(stripped.prefixes, ElementsAre("module."));
  EXPECT_THAT(stripped.notes, ElementsAre("stripped `module.` from 4 of 4 names"));
  EXPECT_THAT(strip(with("module._orig_mod.model."), kModel).notes,
              ElementsAre("stripped `_orig_mod.` from 4 of 4 names",
                          "stripped `module.model.` from 4 of 4 names"));
}

TEST(Prefixes, MarksOfWrappersGoFromTheMiddleToo) {
  const Names names{"_fsdp_wrapped_module.layers.0._fsdp_wrapped_module.attn.weight",
                    "layers.1._checkpoint_wrapped_module._orig_mod.attn.weight",
                    "layers.2.attn._orig_mod.weight/moment1"};
  for (const Names& wanted : {Names{}, Names{"layers.0.attn.weight"}}) {
    EXPECT_THAT(strip(names, wanted).names,
                ElementsAre("layers.0.attn.weight", "layers.1.attn.weight",
                            "layers.2.attn.weight/moment1"));
  }
  EXPECT_THAT(strip(names).notes,
              ElementsAre("stripped `_orig_mod.` from 2 of 3 names",
                          "stripped `_fsdp_wrapped_module.` from 1 of 3 names",
                          "stripped `_checkpoint_wrapped_module.` from 1 of 3 names"));
}

TEST(Prefixes, OnlyWholeNamesOfModulesAreMarks) {
  const Names names{"my_orig_mod.weight",
                    "_orig_mod",
                    "a._orig_mod",
                    "_orig_mod.",
                    "a._orig_mod2.w",
                    "module",
                    "modules.a",
                    ".",
                    "",
                    "a..b"};
  EXPECT_EQ(strip(names).names, names);
  EXPECT_EQ(strip(names, kModel).names, names);
}

TEST(Prefixes, WithoutAModelOnlyModuleOfAllNamesIsStripped) {
  EXPECT_EQ(strip(with("module.")).names, kModel);
  EXPECT_EQ(strip(with("module.module.")).names, kModel);
  EXPECT_EQ(strip(with("module._orig_mod.")).names, kModel);
  EXPECT_EQ(strip(with("model.")).names, with("model."));
  EXPECT_EQ(strip(with("module.model.")).names, with("model."));
  Names some = with("module.");
  some.emplace_back("step");
  EXPECT_EQ(strip(some).names, some);
}

TEST(Prefixes, WhereNothingMakesANameTheModelsOnlyModuleIsStripped) {
  EXPECT_EQ(strip(with("module.model."), {"other.weight"}).names, with("model."));
}

TEST(Prefixes, APrefixThatSomeNamesHaveIsStrippedFromThose) {
  const Stripped stripped =
      strip({"model.embed.wte.weight", "model.blocks.0.ln1.weight", "head.fc.bias"}, kModel);
  EXPECT_THAT(stripped.names,
              ElementsAre("embed.wte.weight", "blocks.0.ln1.weight", "head.fc.bias"));
  EXPECT_THAT(stripped.notes, ElementsAre("stripped `model.` from 2 of 3 names"));
}

TEST(Prefixes, DifferentPrefixesOfDifferentNamesAreStripped) {
  const Stripped stripped =
      strip({"module.model.embed.wte.weight", "module.head.fc.bias", "module.extra"}, kModel);
  EXPECT_THAT(stripped.names, ElementsAre("embed.wte.weight", "head.fc.bias", "module.extra"));
  EXPECT_THAT(stripped.notes, ElementsAre("stripped `module.` from 1 of 3 names",
                                          "stripped `module.model.` from 1 of 3 names"));
}

TEST(Prefixes, AModelWithAPrefixGetsItAdded) {
  const Stripped stripped = strip(kModel, with("model."));
  EXPECT_EQ(stripped.names, with("model."));
  EXPECT_EQ(stripped.added, "model.");
  EXPECT_THAT(stripped.notes, ElementsAre("added `model.` to 4 of 4 names"));
  const Stripped swapped = strip(with("module."), with("model."));
  EXPECT_EQ(swapped.names, with("model."));
  EXPECT_THAT(swapped.notes, ElementsAre("stripped `module.` from 4 of 4 names",
                                         "added `model.` to 4 of 4 names"));
}

TEST(Prefixes, AModelWhoseOwnPartIsCalledModuleKeepsIt) {
  const Names wanted{"module.weight", "weight"};
  EXPECT_EQ(strip(wanted, wanted).names, wanted);
  EXPECT_THAT(strip({"module.module.weight", "module.weight"}, wanted).names,
              ElementsAre("module.weight", "weight"));
}

TEST(Prefixes, StrippingThatGivesTwoTensorsOneNameIsRefused) {
  const Stripped marks = strip({"a._orig_mod.weight", "a.weight"});
  EXPECT_THAT(marks.names, ElementsAre("a._orig_mod.weight", "a.weight"));
  EXPECT_THAT(marks.notes, ElementsAre("left `_orig_mod.` where it is: without it, two tensors "
                                       "would be called a.weight"));
  // Rather b.weight missing than half of one model and half of another.
  const Names names{"model.a.weight", "a.weight", "model.b.weight"};
  EXPECT_EQ(strip(names, {"a.weight", "b.weight"}).names, names);
}

TEST(Prefixes, TwoWaysThatFitEquallyWellAreRefused) {
  try {
    (void)strip({"a", "module.b", "model.b"}, {"a", "b"});
    FAIL() << "not refused";
  } catch (const BadData& error) {
    const Problem& problem = error.problems()[0];
    EXPECT_EQ(problem.code, "LS-5014");
    EXPECT_EQ(problem.where, "x.pt");
    EXPECT_THAT(problem.what, HasSubstr("stripping `model.`"));
    EXPECT_THAT(problem.what, HasSubstr("stripping `module.`"));
  }
}

TEST(Prefixes, TwoDepthsThatFitEquallyWellAreRefused) {
  EXPECT_THROW((void)strip({"module.model.x"}, {"model.x", "x"}), BadData);
  EXPECT_EQ(strip({"module.model.x", "module.model.y"}, {"model.x", "x", "y"}).names,
            (Names{"x", "y"}));
}

TEST(Prefixes, WhatIsGivenIsStrippedAndNothingElse) {
  const auto given = [](const Names& names, const Names& prefixes) {
    return strip_given(names, prefixes, "x.pt");
  };
  EXPECT_EQ(given(with("module.model."), {"model", "module."}).names, kModel);
  EXPECT_EQ(given(with("module.model."), {"model."}).names, with("module.model."));
  EXPECT_EQ(given(with("ema."), {"ema"}).names, kModel);
  EXPECT_EQ(given(with("ema._orig_mod."), {"_orig_mod."}).names, with("ema."));
  EXPECT_EQ(given({"a._orig_mod.b"}, {"_orig_mod"}).names, Names{"a.b"});
  EXPECT_EQ(given(kModel, {""}).names, kModel);
  EXPECT_THAT(
      given({"model.a", "b"}, {"model.", "net.", "model"}).notes,
      ElementsAre("stripped `model.` from 1 of 2 names", "stripped `net.` from 0 of 2 names"));
}

TEST(Prefixes, WhatIsGivenMayNotGiveTwoTensorsOneName) {
  try {
    (void)strip_given(Names{"ema.a", "a"}, Names{"ema."}, "x.pt");
    FAIL() << "not refused";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5014");
    EXPECT_THAT(error.problems()[0].what, HasSubstr("two tensors would be called a"));
  }
}

TEST(Prefixes, AHintNamesAnyPrefixThatWouldHelp) {
  EXPECT_EQ(find_prefix_hint(with("generator."), kModel).prefix, "generator.");
  EXPECT_EQ(find_prefix_hint(with("generator."), kModel).matches, 4U);
  EXPECT_FALSE(find_prefix_hint(with("generator."), kModel).add);
  EXPECT_EQ(find_prefix_hint(with("a.b.c."), kModel).prefix, "a.b.c.");
  EXPECT_EQ(find_prefix_hint(kModel, with("core.")).prefix, "core.");
  EXPECT_TRUE(find_prefix_hint(kModel, with("core.")).add);
  EXPECT_EQ(find_prefix_hint({}, kModel).prefix, "");
  EXPECT_EQ(find_prefix_hint(kModel, {}).prefix, "");
  EXPECT_EQ(find_prefix_hint(with("x"), kModel).prefix, "");  // no dot: another name
}

TEST(Prefixes, HostileNamesTakeNoTime) {
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "module.";
  EXPECT_EQ(strip({deep + "w"}, {"w", "x"}).names.size(), 1U);
  EXPECT_EQ(strip_given(Names{deep + "w"}, Names{"module."}, "x").names, Names{"w"});
  Names many;
  for (int i = 0; i < 5'000; ++i) {
    std::string name;
    for (int bits = i, depth = 0; depth < 6; ++depth, bits /= 4) {
      name += std::vector<std::string>{"module.", "model.", "net.", "network."}[bits % 4];
    }
    many.push_back(name + std::to_string(i));
  }
  EXPECT_EQ(strip(many, many).names, many);
}

TEST(Prefixes, NoNamesAreNoNames) {
  EXPECT_THAT(strip({}).names, IsEmpty());
  EXPECT_THAT(strip({}, kModel).names, IsEmpty());
  EXPECT_THAT(strip_given(Names{}, Names{"module."}, "x").names, IsEmpty());
}

}  // namespace
}  // namespace lockstep::checkpoint
