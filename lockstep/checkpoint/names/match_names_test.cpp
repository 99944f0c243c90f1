#include "lockstep/checkpoint/names/match_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

/// A model of `count` tensors called a.<i>.
std::vector<WantedTensor> model_of(int count) {
  std::vector<WantedTensor> wanted;
  for (int i = 0; i < count; ++i) wanted.push_back({"a." + std::to_string(i), "F32", {i, 2}});
  return wanted;
}

std::vector<StoredTensor> file_of(const std::vector<WantedTensor>& wanted,
                                  const std::string& prefix = "") {
  std::vector<StoredTensor> stored;
  for (const WantedTensor& tensor : wanted) {
    stored.push_back({prefix + tensor.name, tensor.dtype, tensor.shape});
  }
  return stored;
}

TEST(MatchNames, ACheckpointOfTheModelIsComplete) {
  const auto wanted = model_of(122);
  const MatchReport report = match_names(file_of(wanted), wanted);
  EXPECT_TRUE(report.is_complete());
  EXPECT_EQ(to_text(report), "matched 122 of 122");
  ASSERT_EQ(report.matched.size(), 122U);
  EXPECT_EQ(report.matched[5].stored, 5U);
  EXPECT_EQ(report.matched[5].wanted, 5U);
  EXPECT_FALSE(match_fault(report, {}, "x").has_value());
}

TEST(MatchNames, NothingMatchedIsAnErrorEvenInAPartialLoad) {
  const auto wanted = model_of(122);
  const MatchReport report = match_names(file_of(wanted, "model."), wanted);
  EXPECT_THAT(to_text(report), HasSubstr("matched 0 of 122; did you mean to strip `model.`?\n"));
  const auto fault = match_fault(report, {.partial = true, .any_dtype = true}, "x.pt");
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->code, "LS-5014");
  EXPECT_EQ(fault->where, "x.pt");
  EXPECT_THAT(fault->what, HasSubstr("matched 0 of 122; did you mean to strip `model.`?; missing "
                                     "(122): a.0, a.1, a.2, a.3, a.4, a.5, a.6, a.7 and 114 more"));
  EXPECT_EQ(fault->what.find('\n'), std::string::npos);
}

TEST(MatchNames, APrefixToAddIsNamedToo) {
  auto wanted = model_of(3);
  const auto stored = file_of(wanted);
  for (WantedTensor& tensor : wanted) tensor.name = "core." + tensor.name;
  EXPECT_EQ(match_names(stored, wanted).hint, "did you mean to add `core.`?");
}

TEST(MatchNames, NoPrefixIsNamedThatWouldNotHelp) {
  const auto wanted = model_of(2);
  const std::vector<StoredTensor> stored{{"model.b.0", "F32", {1}}, {"model.b.1", "F32", {1}}};
  const MatchReport report = match_names(stored, wanted);
  EXPECT_EQ(report.hint, "");
  EXPECT_EQ(to_text(report),
            "matched 0 of 2\n  missing (2): a.0, a.1\n  unexpected (2): model.b.0, model.b.1");
  EXPECT_EQ(match_fault(report, {.partial = true}, "x")->code, "LS-5014");
}

TEST(MatchNames, NamesOfAKnownFamilyAreRecognised) {
  const std::vector<StoredTensor> stored{{"transformer.wte.weight", "F32", {5, 4}},
                                         {"transformer.h.0.ln_1.weight", "F32", {4}}};
  EXPECT_EQ(match_names(stored, model_of(2)).hint,
            "the names are those of GPT2LMHeadModel of Hugging Face transformers: did you mean to "
            "rename from gpt2?");
}

TEST(MatchNames, APartialLoadListsWhatIsMissingUnexpectedOrOfAnotherForm) {
  const auto wanted = model_of(12);
  std::vector<StoredTensor> stored{
      {"a.0", "F32", {0, 2}}, {"a.1", "F32", {2, 1}}, {"a.2", "BF16", {2, 2}}, {"b", "F32", {1}}};
  const MatchReport report = match_names(stored, wanted);
  EXPECT_EQ(to_text(report),
            "matched 2 of 12\n"
            "  missing (9): a.3, a.4, a.5, a.6, a.7, a.8, a.9, a.10 and 1 more\n"
            "  unexpected (1): b\n"
            "  of another shape (1): a.1 [2, 1] instead of [1, 2]\n"
            "  of another type (1): a.2 BF16 instead of F32");
  ASSERT_EQ(report.matched.size(), 2U);
  EXPECT_TRUE(report.matched[0].same_dtype);
  EXPECT_FALSE(report.matched[1].same_dtype);
  EXPECT_EQ(match_fault(report, {}, "x")->code, "LS-5006");
  EXPECT_EQ(match_fault(report, {.any_dtype = true}, "x")->code, "LS-5006");
  EXPECT_EQ(match_fault(report, {.partial = true}, "x")->code, "LS-5006");
  EXPECT_FALSE(match_fault(report, {.partial = true, .any_dtype = true}, "x").has_value());
}

TEST(MatchNames, ShapesThatAllDifferMatchNothing) {
  const std::vector<WantedTensor> wanted{{"w", "F32", {2}}};
  const std::vector<StoredTensor> stored{{"w", "F32", {3}}};
  const MatchReport report = match_names(stored, wanted);
  EXPECT_EQ(report.hint, "");
  EXPECT_EQ(match_fault(report, {.partial = true}, "x")->code, "LS-5014");
  EXPECT_THAT(match_fault(report, {.partial = true}, "x")->what,
              HasSubstr("matched 0 of 1; of another shape (1): w [3] instead of [2]"));
}

TEST(MatchNames, TiedTensorsAreFoundByAnyOfTheirNames) {
  const std::vector<WantedTensor> wanted{{"embed", "F32", {2}, {"head"}}};
  const std::vector<std::vector<StoredTensor>> files{
      {{"embed", "F32", {2}}},
      {{"head", "F32", {2}}},
      {{"head", "F32", {2}, "", {"embed"}}},
      {{"other", "F32", {2}, "", {"head"}}},
      {{"embed", "F32", {2}}, {"head", "F32", {2}}},  // stored twice
  };
  for (const auto& stored : files) {
    const MatchReport report = match_names(stored, wanted);
    EXPECT_TRUE(report.is_complete()) << to_text(report);
    EXPECT_EQ(report.matched.size(), 1U);
  }
}

TEST(MatchNames, AModelWithoutTensorsMatchesAnEmptyFile) {
  const MatchReport report = match_names({}, {});
  EXPECT_TRUE(report.is_complete());
  EXPECT_FALSE(match_fault(report, {}, "x").has_value());
  EXPECT_EQ(match_fault(match_names({}, model_of(1)), {.partial = true}, "x")->code, "LS-5014");
}

}  // namespace
}  // namespace lockstep::checkpoint
