#include "lockstep/model/stats/known_models.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/model/stats/architecture_stats.h"

namespace lockstep::model {
namespace {

// tests/oracles/count_parameters_test.py adds the same sums up once more.
TEST(KnownModels, HaveTheParametersThatTheirTableSays) {
  for (const KnownModel& model : known_models()) {
    EXPECT_EQ(architecture_stats(model.architecture).parameters(), model.parameters)
        << model.architecture.name;
  }
}

struct Rounded {
  const char* name;
  double billions;
  double within;  // half of its last digit
};

// arXiv:2104.04473, table 1; arXiv:2205.05198, table 3; arXiv:2005.14165, table 2.1;
// arXiv:2205.01068, table 1; arXiv:1910.10683, section 3.7.
constexpr Rounded kRounded[] = {
    {"megatron-1.7b", 1.7, 0.05},     {"megatron-3.6b", 3.6, 0.05},
    {"megatron-7.5b", 7.5, 0.05},     {"megatron-18.4b", 18.4, 0.05},
    {"megatron-39.1b", 39.1, 0.05},   {"megatron-76.1b", 76.1, 0.05},
    {"megatron-145.6b", 145.6, 0.05}, {"megatron-310.1b", 310.1, 0.05},
    {"megatron-529.6b", 529.6, 0.05}, {"megatron-1008b", 1008.0, 0.05},
    {"megatron-22b", 22, 0.5},        {"megatron-175b", 175, 0.5},
    {"megatron-530b", 530, 0.5},      {"gpt-3-125m", 0.125, 0.0005},
    {"gpt-3-760m", 0.76, 0.0005},     {"gpt-3-1.3b", 1.3, 0.05},
    {"gpt-3-2.7b", 2.7, 0.05},        {"gpt-3-6.7b", 6.7, 0.05},
    {"gpt-3-13b", 13, 0.5},           {"gpt-3-175b", 175, 0.5},
    {"opt-6.7b", 6.7, 0.05},          {"opt-66b", 66, 0.5},
    {"opt-175b", 175, 0.5},           {"t5-small", 0.06, 0.005},
    {"t5-large", 0.77, 0.05},         {"t5-11b", 11, 0.5},
};

TEST(KnownModels, AreOfTheSizesThatTheirPapersRoundTo) {
  for (const Rounded& row : kRounded) {
    const auto parameters = static_cast<double>(known_model(row.name).parameters);
    EXPECT_NEAR(parameters / 1e9, row.billions, row.within) << row.name;
  }
}

TEST(KnownModels, GrowWithTheTableOfPositions) {
  // llm-foundry's benchmarks print these for longer samples.
  const Architecture& mpt = known_model("mpt-7b").architecture;
  EXPECT_EQ(architecture_stats(mpt, 65536).parameters(), 6'918'905'856);
  EXPECT_EQ(architecture_stats(mpt, 1024).parameters(), 6'654'664'704);
}

TEST(KnownModels, HaveEachTheirOwnName) {
  std::set<std::string> names;
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(names.insert(model.architecture.name).second) << model.architecture.name;
    EXPECT_FALSE(model.source.empty()) << model.architecture.name;
  }
}

/// The table of docs/guides/models.md; a source stands beside its first model.
std::string table() {
  std::string text;
  std::string_view source;
  for (const KnownModel& model : known_models()) {
    text += "| " + model.architecture.name + " | " + format_count(model.parameters) + " | " +
            (model.source == source ? std::string() : std::string(model.source) + " ") + "|\n";
    source = model.source;
  }
  return text;
}

TEST(KnownModels, AreThoseOfTheGuide) {
  std::ifstream guide(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/guides/models.md");
  std::string rows;
  bool in_table = false;
  for (std::string line; std::getline(guide, line);) {
    if (in_table && !line.starts_with("|")) break;
    if (in_table && !line.starts_with("|---")) rows += line + "\n";
    in_table = in_table || line.starts_with("| name |");
  }
  EXPECT_EQ(rows, table());
}

TEST(KnownModels, AreFoundHoweverTheirNameIsSpelt) {
  EXPECT_EQ(find_known_model("meta-llama/Llama-3.1-8B"), &known_model("llama-3.1-8b"));
  EXPECT_EQ(find_known_model("wide-deep"), &known_model("wide_deep"));
  EXPECT_EQ(find_known_model("ResNet50"), &known_model("resnet50"));
  EXPECT_EQ(find_known_model(""), nullptr);
}

TEST(KnownModels, NamesTheNearestOnesWhenNobodyHasThatName) {
  try {
    (void)known_model("lama-3-8b");
    FAIL() << "there is no such model";
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_EQ(error.problems()[0].code, "LS-6021");
    EXPECT_TRUE(error.problems()[0].fix.starts_with("did you mean llama-3-8b, "))
        << error.problems()[0].fix;
  }
  EXPECT_THROW((void)known_model(std::string(1'000'000, 'x')), UsageError);
}

}  // namespace
}  // namespace lockstep::model
