#include "lockstep/checkpoint/names/name_map.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/checkpoint/names/family_lists_testing.h"

namespace lockstep::checkpoint {
namespace {

std::vector<std::string> names_in(const char* list) {
  std::vector<std::string> names;
  for (const std::string& line : split_list(list)) names.push_back(parse_line(line).name);
  return names;
}

/// Numbers that differ, so that no two are taken for each other.
const Bindings kNumbers{{"layer", 12}, {"stage", 3}, {"block", 5}, {"conv", 1}};

std::set<std::string_view> keys_of(std::string_view pattern) {
  std::set<std::string_view> keys;
  const auto bindings = match_pattern(pattern, fill_pattern(pattern, kNumbers));
  for (const Bound& bound : bindings.value()) keys.insert(bound.key);
  return keys;
}

TEST(NameMap, EveryNameOfATableLeadsToItsOwnRow) {
  for (const NameMap& map : name_maps()) {
    for (const NameRule& rule : map.rules) {
      const std::string ours = fill_pattern(rule.ours, kNumbers);
      const auto known = find_name(map, Convention::ours, ours);
      ASSERT_TRUE(known.has_value()) << ours;
      EXPECT_EQ(known->rule, &rule) << ours;
      for (std::size_t i = 0; i < theirs_of(rule).size(); ++i) {
        const std::string theirs = fill_pattern(theirs_of(rule)[i], kNumbers);
        const auto back = find_name(map, Convention::theirs, theirs);
        ASSERT_TRUE(back.has_value()) << theirs;
        EXPECT_EQ(back->rule == &rule && back->place == i, !rule.ours_only) << theirs;
        EXPECT_FALSE(find_name(map, Convention::ours, theirs).has_value()) << theirs;
        EXPECT_EQ(keys_of(theirs_of(rule)[i]), keys_of(rule.ours)) << theirs;
      }
      EXPECT_FALSE(find_name(map, Convention::theirs, ours).has_value()) << ours;
    }
  }
}

TEST(NameMap, WhatATableRefersToIsInIt) {
  for (const NameMap& map : name_maps()) {
    const auto has = [&](Convention convention, std::string_view pattern) {
      return find_name(map, convention, fill_pattern(pattern, kNumbers)).has_value();
    };
    if (!map.stream.empty()) {
      EXPECT_TRUE(has(Convention::ours, map.stream)) << map.family;
    }
    for (const NameRule& rule : map.rules) {
      EXPECT_EQ(theirs_of(rule).size() > 1, !rule.first_rows.empty()) << rule.ours;
      if (!rule.first_rows.empty()) {
        EXPECT_TRUE(has(Convention::ours, rule.first_rows)) << rule.first_rows;
      }
    }
    for (const Tie& tie : map.ties) {
      for (const auto name : {tie.ours, tie.ours_second}) EXPECT_TRUE(has(Convention::ours, name));
      for (const auto name : {tie.theirs, tie.theirs_second}) {
        EXPECT_TRUE(has(Convention::theirs, name)) << name;
      }
    }
    for (const Counter& counter : map.counters) {
      EXPECT_TRUE(has(Convention::ours, counter.ours)) << counter.ours;
      EXPECT_FALSE(has(Convention::theirs, counter.theirs)) << counter.theirs;
    }
  }
}

TEST(NameMap, RulesOfAPartHaveTheSameNumbers) {
  for (const NameMap& map : name_maps()) {
    std::map<std::string_view, std::set<std::string_view>> keys;
    for (const NameRule& rule : map.rules) {
      if (rule.part.empty()) continue;
      const auto [at, is_new] = keys.try_emplace(rule.part, keys_of(rule.ours));
      EXPECT_EQ(at->second, keys_of(rule.ours)) << map.family << " " << rule.ours;
    }
  }
}

TEST(NameMap, FamiliesAreFoundByNameAndByTheNamesOfTheirFiles) {
  EXPECT_EQ(find_name_map("gpt2")->family, "gpt2");
  EXPECT_EQ(find_name_map("gpt3"), nullptr);
  EXPECT_EQ(find_name_map(""), nullptr);
  EXPECT_EQ(guess_family(names_in(kGpt2Theirs)), find_name_map("gpt2"));
  EXPECT_EQ(guess_family(names_in(kLlamaTheirs)), find_name_map("llama"));
  EXPECT_EQ(guess_family(names_in(kBertTheirs)), find_name_map("bert"));
  for (const char* ours : {kGpt2Ours, kLlamaOurs, kBertOurs, kResnetOurs}) {
    EXPECT_EQ(guess_family(names_in(ours)), nullptr);
  }
  EXPECT_EQ(guess_family({}), nullptr);
}

TEST(NameMap, AFewNamesThatAnyFamilyHasAreNoFamily) {
  EXPECT_EQ(guess_family(std::vector<std::string>{"lm_head.weight"}), nullptr);
  EXPECT_EQ(guess_family(std::vector<std::string>{"fc.weight", "a", "b"}), nullptr);
}

TEST(NameMap, BaseModelsHaveTheNamesWithoutTheirPrefix) {
  EXPECT_EQ(guess_family(std::vector<std::string>{"wte.weight", "h.0.attn.c_attn.weight"}),
            find_name_map("gpt2"));
  EXPECT_EQ(guess_family(std::vector<std::string>{"embeddings.LayerNorm.gamma", "pooler.dense.bias",
                                                  "embeddings.position_ids"}),
            find_name_map("bert"));
}

TEST(NameMap, TheConventionIsThatOfMostNames) {
  const NameMap& gpt2 = *find_name_map("gpt2");
  EXPECT_EQ(convention_of(gpt2, names_in(kGpt2Ours)), Convention::ours);
  EXPECT_EQ(convention_of(gpt2, names_in(kGpt2Theirs)), Convention::theirs);
  EXPECT_EQ(convention_of(gpt2, std::vector<std::string>{"a", "blocks.0.qkv.weight/moment1"}),
            Convention::ours);
  EXPECT_EQ(convention_of(gpt2, std::vector<std::string>{"a", "blocks.0"}), std::nullopt);
  EXPECT_EQ(convention_of(gpt2, {}), std::nullopt);
}

TEST(NameMap, StateOfAnOptimizerIsNamedAfterItsParameter) {
  EXPECT_EQ(split_state_name("a.b/moment1").parameter, "a.b");
  EXPECT_EQ(split_state_name("a.b/moment1").suffix, "/moment1");
  EXPECT_EQ(split_state_name("a/b/c").parameter, "a/b");
  for (const char* name : {"a.b", "", "/moment1"}) {
    EXPECT_EQ(split_state_name(name).parameter, name);
    EXPECT_EQ(split_state_name(name).suffix, "");
  }
}

TEST(NameMap, WhatIsUnneededHasAReason) {
  const NameMap& gpt2 = *find_name_map("gpt2");
  EXPECT_NE(why_unneeded(gpt2, "transformer.h.3.attn.bias"), "");
  EXPECT_NE(why_unneeded(gpt2, "h.3.attn.masked_bias"), "");
  EXPECT_EQ(why_unneeded(gpt2, "transformer.h.3.attn.c_attn.bias"), "");
  EXPECT_NE(why_unneeded(*find_name_map("llama"), "model.rotary_emb.inv_freq"), "");
}

}  // namespace
}  // namespace lockstep::checkpoint
