#include "lockstep/config/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::config {
namespace {

using testing::HasSubstr;

TEST(Registry, KeysAreUniqueAndStandUnderKnownSections) {
  std::set<std::string_view> keys;
  std::set<std::string_view> names;
  for (const Section& section : sections()) names.insert(section.name);
  for (const Option& option : options()) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    EXPECT_TRUE(names.contains(option.section())) << option.key;
  }
}

TEST(Registry, EveryDefaultIsAllowedAndSurvivesGetAndSet) {
  const RunConfig defaults;
  for (const Option& option : options()) {
    const Value value = option.get(defaults);
    RunConfig other;
    option.set(other, value);
    EXPECT_EQ(option.get(other), value) << option.key;
    EXPECT_EQ(std::holds_alternative<std::monostate>(value), option.optional) << option.key;
  }
}

TEST(Registry, HelpIsOneLineWithoutFullStop) {
  for (const Option& option : options()) {
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_LE(option.help.size(), 90U) << option.key;
    EXPECT_NE(option.help.back(), '.') << option.key;
    EXPECT_EQ(option.help.find('\n'), std::string_view::npos) << option.key;
  }
}

TEST(Registry, ReadersNameAKeyAndWordsThatExist) {
  for (const Option& option : options()) {
    if (option.read_when.key.empty()) continue;
    const Option* choice = find_option(option.read_when.key);
    ASSERT_NE(choice, nullptr) << option.key;
    const bool by_word = !option.read_when.words.empty();
    ASSERT_EQ(choice->type == OptionType::word, by_word) << option.key;
    EXPECT_FALSE(choice->optional) << option.key;
    for (const std::string_view word : option.read_when.words) {
      EXPECT_NE(std::find(choice->words.begin(), choice->words.end(), word), choice->words.end())
          << option.key;
    }
  }
}

TEST(Registry, WordsFollowTheEnums) {
  RunConfig config;
  config.model.family = Family::gpt;
  config.schedule.name = ScheduleName::one_cycle;
  config.recovery.on_nan = OnNan::rollback;
  config.data.augment = Augment::flip_crop;
  config.precision.compute = Dtype::bf16;
  config.precision.reduce = Dtype::fp16;
  config.optimizer.decay = Decay::matrices;
  EXPECT_EQ(word_of(*find_option("model.family"), config), "gpt");
  EXPECT_EQ(word_of(*find_option("schedule.name"), config), "one_cycle");
  EXPECT_EQ(word_of(*find_option("recovery.on_nan"), config), "rollback");
  EXPECT_EQ(word_of(*find_option("data.augment"), config), "flip_crop");
  EXPECT_EQ(word_of(*find_option("precision.compute"), config), "bf16");
  EXPECT_EQ(word_of(*find_option("precision.reduce"), config), "fp16");
  EXPECT_EQ(word_of(*find_option("optimizer.decay"), config), "matrices");
  EXPECT_EQ(word_of(*find_option("data.format"), config), "synthetic");
  EXPECT_EQ(word_of(*find_option("optimizer.name"), config), "sgd");
}

TEST(Registry, SuggestsTheNearestKeyAlsoOfAnotherSection) {
  EXPECT_EQ(suggest_key("optimizer.momentun"), "did you mean optimizer.momentum?");
  EXPECT_EQ(suggest_key("optimizer.seed"), "did you mean run.seed?");
  EXPECT_EQ(suggest_key("optimzer.lr"), "did you mean optimizer.lr?");
  EXPECT_THAT(suggest_key("zzz.qqqqqq"), HasSubstr("lists all keys"));
}

TEST(ExplainOption, SaysTypeDefaultAndReaders) {
  const std::string text = explain_option(*find_option("optimizer.betas"));
  EXPECT_THAT(text, HasSubstr("[0.9, 0.999]"));
  EXPECT_THAT(text, HasSubstr("a list of two numbers from 0 below 1"));
  EXPECT_THAT(text, HasSubstr("when optimizer.name = \"adamw\""));
  EXPECT_THAT(explain_option(*find_option("parallel.local_steps_from")),
              HasSubstr("when parallel.local_steps above 1"));
  EXPECT_THAT(explain_option(*find_option("parallel.data")), HasSubstr("\"auto\" or a whole"));
  EXPECT_THAT(explain_option(*find_option("precision.loss_scale")),
              HasSubstr("\"dynamic\" or a number"));
}

TEST(ConfigMarkdown, HasARowForEveryKey) {
  const std::string text = config_markdown();
  for (const Option& option : options()) {
    EXPECT_THAT(text, HasSubstr("| `" + std::string(option.name()) + "` |"));
  }
}

}  // namespace
}  // namespace lockstep::config
