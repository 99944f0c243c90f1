#include "lockstep/rundir/resume_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

using config::RunConfig;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kOtherRate = "the learning rate of a step is another from here on";

RunConfig gpt() {
  RunConfig config;
  config.model.family = config::Family::gpt;
  config.data.format = config::DataFormat::text;
  config.data.train = "text.txt";
  config.batch.global_batch = 64;
  config.optimizer.name = config::OptimizerName::adamw;
  config.optimizer.weight_decay = 0.1;
  return config;
}

std::vector<ResumeChange> changes(const RunConfig& now, const RunConfig& then,
                                  const ResumeFacts& facts = {}) {
  return resume_changes(now, config::to_json_text(then), facts);
}

std::string class_text(ChangeClass change) {
  const std::array<const char*, 4> names{"free", "noted", "refused", "impossible"};
  return names.at(static_cast<std::size_t>(change));
}

/// "noted optimizer.lr 0.1 -> 0.01".
std::vector<std::string> told(const std::vector<ResumeChange>& changes) {
  std::vector<std::string> texts;
  for (const ResumeChange& one : changes) {
    EXPECT_FALSE(one.why.empty()) << one.key;
    std::string text = class_text(one.change) + " " + one.key;
    if (!one.stored.empty()) text += " " + one.stored + " -> " + one.present;
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> told(const RunConfig& now, const RunConfig& then,
                              const ResumeFacts& facts = {}) {
  return told(changes(now, then, facts));
}

ResumeFacts ranks(int stored, int present) { return {stored, present, "", ""}; }

TEST(ResumeRules, EveryKeyHasOneRowInTheOrderOfTheRegistry) {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> ruled;
  for (const config::Option& option : config::options()) keys.push_back(option.key);
  for (const ResumeRule& rule : resume_rules()) {
    ruled.push_back(rule.key);
    EXPECT_FALSE(rule.why.empty()) << rule.key;
    EXPECT_NE(rule.why.back(), '.') << rule.key;
  }
  EXPECT_EQ(ruled, keys);
}

TEST(ResumeRules, TheNameOfChangedDataIsNoKey) {
  EXPECT_EQ(config::find_option(kDataKey), nullptr);
}

/// A value of the key that is not the default.
config::Value other_value(const config::Option& option) {
  const config::Value value = option.get(RunConfig{});
  if (option.type == config::OptionType::word) return std::int64_t{1};
  if (const auto* yes = std::get_if<bool>(&value)) return !*yes;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole + 1;
  if (const auto* real = std::get_if<double>(&value)) return *real + 0.5;
  if (option.type == config::OptionType::integer) return std::int64_t{3};
  if (option.type == config::OptionType::number) return 2.5;
  if (option.type == config::OptionType::text) return std::string("other");
  return std::array<double, 2>{0.5, 0.5};
}

/// `config` with what `option` needs to be read, in any number of links.
void make_read(const config::Option& option, RunConfig& config) {
  const config::ReadWhen& when = option.read_when;
  if (option.key == "data.seq_len") config.model.family = config::Family::gpt;
  if (when.key.empty()) return;
  const config::Option& choice = *config::find_option(when.key);
  make_read(choice, config);
  if (config::is_read(option, config)) return;
  if (when.words.empty()) {
    choice.set(config, choice.type == config::OptionType::number ? config::Value(0.5)
                                                                 : config::Value(std::int64_t{2}));
    return;
  }
  const auto place = std::find(choice.words.begin(), choice.words.end(), when.words.front());
  choice.set(config, static_cast<std::int64_t>(place - choice.words.begin()));
}

TEST(ResumeChanges, AChangeOfAnyKeyIsFoundAndHasTheClassOfItsRow) {
  const std::set<std::string_view> by_value{"run.steps", "run.epochs", "optimizer.momentum",
                                            "parallel.data", "parallel.virtual_ranks"};
  for (const ResumeRule& rule : resume_rules()) {
    const config::Option& option = *config::find_option(rule.key);
    RunConfig then;
    then.batch.global_batch = 12;
    if (rule.key == "parallel.data") then.parallel.virtual_ranks = 4;
    make_read(option, then);
    RunConfig now = then;
    option.set(now, other_value(option));
    const bool needs_ranks = rule.key == "batch.micro_batch";
    const auto found = changes(now, then, needs_ranks ? ranks(2, 2) : ranks(1, 0));
    ASSERT_EQ(found.size(), 1U) << rule.key;
    EXPECT_EQ(found[0].key, rule.key);
    EXPECT_NE(found[0].stored, found[0].present) << rule.key;
    if (by_value.contains(rule.key)) continue;
    EXPECT_EQ(found[0].change, rule.change) << rule.key;
    EXPECT_EQ(found[0].why, rule.why);
  }
}

TEST(ResumeChanges, NothingChangesWhereConfigurationsAreEqual) {
  EXPECT_THAT(changes(RunConfig{}, RunConfig{}), IsEmpty());
  EXPECT_THAT(changes(gpt(), gpt(), ranks(2, 2)), IsEmpty());
}

TEST(ResumeChanges, AreInTheOrderOfTheRegistryWithBothValues) {
  RunConfig now = gpt();
  now.run.name = "second";
  now.run.seed = 7;
  now.optimizer.lr = 0.01;
  now.optimizer.betas = {0.9, 0.95};
  now.data.workers = 4;
  now.run.epochs = 2.0;
  now.precision.compute = config::Dtype::bf16;
  EXPECT_THAT(told(now, gpt()),
              ElementsAre("free run.name \"run\" -> \"second\"", "refused run.seed 1 -> 7",
                          "free run.epochs unset -> 2.0", "free data.workers 1 -> 4",
                          "noted optimizer.lr 0.1 -> 0.01",
                          "noted optimizer.betas [0.9,0.999] -> [0.9,0.95]",
                          "refused precision.compute \"fp32\" -> \"bf16\""));
}

TEST(ResumeChanges, AKeyThatIsNotStoredCountsAsItsDefault) {
  auto stored = nlohmann::json::parse(config::to_json_text(gpt()));
  stored["run"].erase("seed");
  stored.erase("parallel");
  EXPECT_THAT(resume_changes(gpt(), stored.dump()), IsEmpty());
  RunConfig now = gpt();
  now.run.seed = 5;
  now.parallel.local_steps = 4;
  EXPECT_THAT(told(resume_changes(now, stored.dump())),
              ElementsAre("refused run.seed 1 -> 5", "noted parallel.local_steps 1 -> 4"));
}

TEST(ResumeChanges, AnotherFamilyStandsAlone) {
  RunConfig now = gpt();
  now.run.seed = 5;
  now.model.layers = 9;
  EXPECT_THAT(told(now, RunConfig{}), ElementsAre("impossible model.family \"mlp\" -> \"gpt\""));
}

TEST(ResumeChanges, AnotherOptimizerStandsAloneInItsSection) {
  RunConfig now = gpt();
  now.optimizer = {};
  now.optimizer.momentum = 0.9;
  now.run.seed = 2;
  EXPECT_THAT(told(now, gpt()), ElementsAre("refused run.seed 1 -> 2",
                                            "impossible optimizer.name \"adamw\" -> \"sgd\""));
}

TEST(ResumeChanges, MomentumIsATensorUnlessItIsZero) {
  RunConfig then;
  then.optimizer.momentum = 0.9;
  RunConfig now;
  EXPECT_THAT(told(now, then), ElementsAre("impossible optimizer.momentum 0.9 -> 0.0"));
  EXPECT_THAT(told(then, now), ElementsAre("impossible optimizer.momentum 0.0 -> 0.9"));
  now.optimizer.momentum = 0.5;
  EXPECT_THAT(told(now, then), ElementsAre("noted optimizer.momentum 0.9 -> 0.5"));
}

TEST(ResumeChanges, WhatARunDoesNotReadIsNotCompared) {
  RunConfig now;  // mlp, sgd without momentum or decay
  now.model.heads = 3;
  now.model.dropout = 0.5;
  now.data.seq_len = 8;
  now.data.train = "elsewhere";
  now.optimizer.eps = 1e-3;
  now.optimizer.nesterov = true;
  now.optimizer.decay = config::Decay::matrices;
  now.precision.loss_scale = 8.0;
  now.parallel.powersgd_rank = 2;
  EXPECT_THAT(changes(now, RunConfig{}), IsEmpty());
}

TEST(ResumeChanges, AChoiceIsSaidWithoutTheKeysThatHangOnIt) {
  RunConfig then;
  then.schedule.name = config::ScheduleName::cosine;
  then.schedule.final_lr_fraction = 0.1;
  EXPECT_THAT(told(RunConfig{}, then),
              ElementsAre("noted schedule.name \"cosine\" -> \"constant\""));
}

TEST(ResumeChanges, ALongerRunIsFreeWhileTheRateDoesNotDependOnItsLength) {
  RunConfig then;
  then.run.steps = 100;
  RunConfig now = then;
  now.run.steps = 200;
  EXPECT_THAT(told(now, then), ElementsAre("free run.steps 100 -> 200"));
  now.schedule.name = then.schedule.name = config::ScheduleName::one_cycle;
  const auto found = changes(now, then);
  EXPECT_THAT(told(found), ElementsAre("noted run.steps 100 -> 200"));
  EXPECT_THAT(found[0].why, HasSubstr("another number of steps"));
}

TEST(ResumeChanges, GlobalBatchesAreComparedAsTheRanksMakeThem) {
  RunConfig then;
  then.batch.micro_batch = 16;  // x 4 ranks
  RunConfig now;
  now.batch.global_batch = 64;
  now.batch.micro_batch = 16;
  EXPECT_THAT(changes(now, then), IsEmpty()) << "how many ranks there were is not known";
  EXPECT_THAT(told(now, then, ranks(4, 2)), ElementsAre("noted parallel.data 4 -> 2"));
  EXPECT_THAT(told(now, then, ranks(2, 2)), ElementsAre("refused batch.global_batch 32 -> 64"));
  EXPECT_THAT(told(then, then, ranks(4, 2)),
              ElementsAre("noted batch.global_batch 64 -> 32", "noted parallel.data 4 -> 2"))
      << "nobody asked for another batch";
  now.batch.global_batch = 32;
  EXPECT_THAT(told(now, then, ranks(4, 2)),
              ElementsAre("refused batch.global_batch 64 -> 32", "noted parallel.data 4 -> 2"));
  now.batch.global_batch = 64;
  EXPECT_THAT(told(RunConfig{}, now, ranks(2, 2)), ElementsAre("noted batch.micro_batch 16 -> 32"));
}

TEST(ResumeChanges, RanksComeFromTheConfigurationWhereNothingElseTells) {
  RunConfig then;
  then.parallel.data = 2;
  RunConfig now;
  now.parallel.data = 4;
  EXPECT_THAT(told(now, then),
              ElementsAre("noted batch.global_batch 64 -> 128", "noted parallel.data 2 -> 4"));
  EXPECT_THAT(changes(RunConfig{}, then), IsEmpty());
}

TEST(ResumeChanges, AnotherCutOfTheSameBatchIsNotedOnce) {
  RunConfig then;
  then.batch.global_batch = 64;
  then.batch.accumulation = 2;
  RunConfig now = then;
  now.batch.accumulation = 4;
  EXPECT_THAT(told(now, then, ranks(2, 2)),
              ElementsAre("noted batch.micro_batch 16 -> 8", "free batch.accumulation 2 -> 4"));
}

TEST(ResumeChanges, AMicroBatchThatIsToBeFoundIsNoChange) {
  RunConfig then;
  then.batch.global_batch = 64;
  then.batch.micro_batch = 8;
  RunConfig now;
  now.batch.global_batch = 64;
  now.batch.finds_micro_batch = true;
  EXPECT_THAT(changes(now, then, ranks(2, 2)), IsEmpty());
  now.batch.global_batch = 128;
  EXPECT_THAT(told(now, then, ranks(2, 2)), ElementsAre("refused batch.global_batch 64 -> 128"));
}

TEST(ResumeChanges, RanksMayChangeAndVirtualRanksKeepTheBits) {
  RunConfig then = gpt();
  EXPECT_THAT(changes(gpt(), then, ranks(2, 0)), IsEmpty());
  auto found = changes(gpt(), then, ranks(2, 4));
  EXPECT_THAT(told(found),
              ElementsAre("noted batch.micro_batch 32 -> 16", "noted parallel.data 2 -> 4"));
  EXPECT_THAT(found[1].why, HasSubstr("rounded otherwise"));
  then.parallel.virtual_ranks = 8;
  found = changes(then, then, ranks(2, 4));
  EXPECT_THAT(told(found), ElementsAre("noted parallel.data 2 -> 4"));
  EXPECT_THAT(found[0].why, HasSubstr("keep the bits"));
}

TEST(ResumeChanges, VirtualRanksAreRefusedOnlyWhereTheyHadBeenPromised) {
  RunConfig then = gpt();
  then.parallel.virtual_ranks = 8;
  RunConfig now = then;
  now.parallel.virtual_ranks = 4;
  EXPECT_THAT(told(now, then), ElementsAre("noted batch.micro_batch 8 -> 16",
                                           "refused parallel.virtual_ranks 8 -> 4"));
  EXPECT_THAT(told(gpt(), then), ElementsAre("refused parallel.virtual_ranks 8 -> unset"));
  EXPECT_THAT(told(then, gpt()), ElementsAre("noted parallel.virtual_ranks unset -> 8"));
}

TEST(ResumeChanges, AWordStandsForNoValue) {
  RunConfig then = gpt();
  then.precision.compute = config::Dtype::fp16;
  RunConfig now = then;
  now.precision.loss_scale = 1024.0;
  EXPECT_THAT(told(now, then), ElementsAre("noted precision.loss_scale \"dynamic\" -> 1024.0"));
}

TEST(ResumeChanges, ASpellingOfTheSamePathIsNoChange) {
  RunConfig then = gpt();
  then.data.train = "data/books/";
  RunConfig now = gpt();
  for (const char* same : {"data/books", "./data//books", "data/x/../books/"}) {
    now.data.train = same;
    EXPECT_THAT(changes(now, then), IsEmpty()) << same;
  }
  now.data.train = "data/book";
  EXPECT_THAT(told(now, then), ElementsAre("refused data.train \"data/books/\" -> \"data/book\""));
  then.data.train = "!cat a//b";
  now.data.train = "!cat a/b";
  EXPECT_THAT(told(now, then), ElementsAre("refused data.train \"!cat a//b\" -> \"!cat a/b\""));
  then = gpt();
  now = gpt();
  now.data.eval = ".";
  EXPECT_THAT(told(now, then), ElementsAre("noted data.eval \"\" -> \".\""));
}

TEST(ResumeChanges, FilesThatOnlyMovedAreNoted) {
  RunConfig now = gpt();
  now.data.train = "/mnt/text.txt";
  const auto found = changes(now, gpt(), {0, 0, "aa", "aa"});
  EXPECT_THAT(told(found), ElementsAre("noted data.train \"text.txt\" -> \"/mnt/text.txt\""));
  EXPECT_THAT(found[0].why, HasSubstr("are the same"));
}

TEST(ResumeChanges, OtherFilesUnderTheSameNameAreRefusedAsData) {
  EXPECT_THAT(told(gpt(), gpt(), {0, 0, "aa", "bb"}), ElementsAre("refused data"));
  EXPECT_THAT(changes(gpt(), gpt(), {0, 0, "aa", ""}), IsEmpty());
  EXPECT_THAT(changes(gpt(), gpt(), {0, 0, "", "bb"}), IsEmpty());
  RunConfig now = gpt();
  now.data.train = "other.txt";
  EXPECT_THAT(told(now, gpt(), {0, 0, "aa", "bb"}),
              ElementsAre("refused data.train \"text.txt\" -> \"other.txt\""));
}

TEST(ResumeChanges, KeysOfANewerVersionAreNoted) {
  auto stored = nlohmann::json::parse(config::to_json_text(gpt()));
  stored["optimizer"]["lookahead"] = 3;
  stored["x\n\x1b"]["y"] = nullptr;
  const auto found = resume_changes(gpt(), stored.dump());
  EXPECT_THAT(told(found), ElementsAre("noted optimizer.lookahead 3 -> unset",
                                       "noted x\\n\\u001b.y unset -> unset"));
  EXPECT_EQ(found[0].why, "this version does not know it");
  for (int i = 0; i < 1000; ++i) stored["more"][std::to_string(i)] = i;
  EXPECT_LT(resume_changes(gpt(), stored.dump()).size(), 20U);
}

TEST(ResumeChanges, AWordOfANewerVersionIsAChange) {
  auto stored = nlohmann::json::parse(config::to_json_text(gpt()));
  stored["optimizer"]["name"] = "lion";
  EXPECT_THAT(told(resume_changes(gpt(), stored.dump())),
              ElementsAre("impossible optimizer.name \"lion\" -> \"adamw\""));
  stored["model"]["family"] = "vit";
  EXPECT_THAT(told(resume_changes(gpt(), stored.dump())),
              ElementsAre("impossible model.family \"vit\" -> \"gpt\""));
}

TEST(ResumeChanges, WhatIsNoConfigurationChangesNothing) {
  for (const char* stored : {"", "{", "{}", "[]", "null", "{\"model\":3}", "{\"model\":{\"w\":1}}",
                             "{\"model\":{\"family\":7}}"}) {
    EXPECT_THAT(resume_changes(gpt(), stored), IsEmpty()) << stored;
  }
}

TEST(ResumeChanges, HostileValuesAreShownShort) {
  const std::string deep(200'000, '[');
  const std::string shut(200'000, ']');
  std::string stored = R"({"model":{"family":"gpt","layers":{"a":)" + deep + shut + R"(}},)";
  stored += R"("run":{"seed":")" + std::string(100'000, 'x') + R"(","steps":1e999999999},)";
  EXPECT_THAT(resume_changes(gpt(), stored + "}"), IsEmpty()) << "no JSON number";
  stored = R"({"model":{"family":"gpt","layers":{"a":)" + deep + shut + R"(}},)";
  std::string letters = "x";
  while (letters.size() < 1000) letters += "\xc3\xa4";
  stored += R"("run":{"seed":")" + letters + R"(","name":)" + deep + shut + R"(},)";
  stored += R"("batch":{"global_batch":-3,"micro_batch":9223372036854775807},)";
  stored += R"("parallel":{"virtual_ranks":0,"data":1e300},"optimizer":[1],"data":"x"})";
  const auto found = resume_changes(gpt(), stored, ranks(1'000'000, 1));
  EXPECT_GE(found.size(), 3U);
  for (const ResumeChange& one : found) {
    EXPECT_LT(one.stored.size(), 210U) << one.key;
    EXPECT_NO_THROW((void)nlohmann::json(one.stored).dump()) << "cut inside a letter";
  }
}

TEST(AllowedKeyProblems, AKeyThatIsNoneHasASuggestion) {
  EXPECT_THAT(allowed_key_problems({"run.seed", "data", "data.train", "optimizer.lr"}), IsEmpty());
  const auto problems =
      allowed_key_problems({"run.sed", "seed", "batch", "", std::string(3000, '\xff')});
  ASSERT_EQ(problems.size(), 5U);
  for (const Problem& problem : problems) {
    EXPECT_EQ(problem.code, "LS-1013");
    EXPECT_THAT(problem.where, StartsWith("--allow-change"));
    EXPECT_LT(problem.where.size(), 230U);
    EXPECT_NO_THROW((void)nlohmann::json(problem.where).dump());
  }
  EXPECT_EQ(problems[0].where, "--allow-change run.sed");
  EXPECT_EQ(problems[0].fix, "did you mean run.seed?");
  EXPECT_EQ(problems[1].fix, "did you mean run.seed?");
  EXPECT_EQ(problems[2].fix, "name one key of it, as in batch.global_batch");
}

TEST(AllowedKeyProblems, OtherTensorsCannotBeAllowed) {
  const auto problems = allowed_key_problems({"model.width"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-1013");
  EXPECT_EQ(problems[0].what, "cannot be allowed: the tensors are others");
}

TEST(ChangeProblems, ARefusedKeyIsLetThroughByItsNameAlone) {
  RunConfig now = gpt();
  now.run.seed = 2;
  now.optimizer.lr = 1;
  now.data.train_samples = 9;
  const auto found = changes(now, gpt());
  const auto problems = change_problems(found, {"data.train_samples"}, "step-3");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-5021");
  EXPECT_EQ(problems[0].where, "step-3");
  EXPECT_THAT(problems[0].what,
              StartsWith("run.seed is 2, the checkpoint was trained with 1: samples come in "));
  EXPECT_EQ(problems[0].fix,
            "go on with the stored value, accept it with --allow-change run.seed, or train anew "
            "with --resume none");
  EXPECT_EQ(change_problems(found, {}, "step-3").size(), 2U);
  EXPECT_THAT(change_problems(found, {"data.train_samples", "run.seed"}, "step-3"), IsEmpty());
}

TEST(ChangeProblems, OtherTensorsAreSaidWhateverIsAllowed) {
  RunConfig now = gpt();
  now.model.width = 64;
  const auto problems = change_problems(changes(now, gpt()), {"model.width"}, "step-3");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].code, "LS-1013");
  EXPECT_EQ(problems[1].code, "LS-5006");
  EXPECT_EQ(problems[1].what, "model.width is 64, the checkpoint has 256");
  RunConfig without;
  RunConfig with;
  with.optimizer.momentum = 0.9;
  EXPECT_EQ(change_problems(changes(with, without), {"optimizer.momentum"}, "x").size(), 1U);
}

TEST(ChangeProblems, ChangedFilesAreAllowedAsData) {
  const auto found = changes(gpt(), gpt(), {0, 0, "aa", "bb"});
  const auto problems = change_problems(found, {}, "step-3");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].what, StartsWith("the files of data.train have other names or sizes"));
  EXPECT_THAT(problems[0].fix, HasSubstr("--allow-change data,"));
  EXPECT_THAT(change_problems(found, {"data"}, "step-3"), IsEmpty());
  EXPECT_THAT(change_notes(found, {"data"}), ElementsAre(StartsWith("the files of data.train")));
}

TEST(ChangeNotes, OneLineForEachChangeThatGoesOn) {
  RunConfig now = gpt();
  now.run.name = "quiet";
  now.run.seed = 2;
  now.data.train_samples = 9;
  now.schedule.warmup_steps = 5;
  EXPECT_THAT(change_notes(changes(now, gpt()), {"data.train_samples"}),
              ElementsAre("data.train_samples is 9, the checkpoint was trained with 0: an epoch "
                          "has other samples, in another order (allowed by --allow-change)",
                          "schedule.warmup_steps is 5, the checkpoint was trained with 0: " +
                              std::string(kOtherRate)));
}

TEST(VersionNotes, NameEachLibraryThatDiffers) {
  EXPECT_THAT(version_notes({{"libtorch", "2.10.0"}, {"lockstep", "0.1.0"}, {"old", "1"}},
                            {{"libtorch", "2.11.0"}, {"lockstep", "0.1.0"}, {"new", "1"}}),
              ElementsAre("LibTorch 2.10.0 saved it, this is 2.11.0: the same numbers are not "
                          "promised"));
  EXPECT_THAT(version_notes({}, {{"libtorch", "2.11.0"}}), IsEmpty());
  const auto hostile =
      version_notes({{"libtorch", "\x1b[2J" + std::string(9999, '\xff')}}, {{"libtorch", "2"}});
  ASSERT_EQ(hostile.size(), 1U);
  EXPECT_LT(hostile[0].size(), 300U);
  EXPECT_THAT(hostile[0], StartsWith("LibTorch \\u001b[2J"));
}

TEST(DataRanksOf, ReadsALayoutAndNothingElse) {
  EXPECT_EQ(data_ranks_of("data=2"), 2);
  EXPECT_EQ(data_ranks_of("data=1000000"), 1'000'000);
  for (const char* other : {"", "data=", "data=0", "data=-1", "data=2x", "data=99999999999999999",
                            "data=1000001", "tensor=2", "data=2 tensor=2"}) {
    EXPECT_EQ(data_ranks_of(other), 0) << other;
  }
}

TEST(TrainingDataHash, IsOfTheTrainingFilesAlone) {
  const test::ScratchFolder scratch;
  (void)scratch.write("train.txt", "abc");
  (void)scratch.write("eval.txt", "de");
  config::DataSection data = gpt().data;
  data.train = scratch.file("train.txt");
  const std::string first = training_data_hash(data);
  EXPECT_EQ(first.size(), 64U);
  data.eval = scratch.file("eval.txt");
  EXPECT_EQ(training_data_hash(data), first);
  std::filesystem::rename(scratch.path() / "train.txt", scratch.path() / "moved.txt");
  data.train = scratch.file("moved.txt");
  EXPECT_EQ(training_data_hash(data), first);
  (void)scratch.write("moved.txt", "abcd");
  EXPECT_NE(training_data_hash(data), first);
  data.train = "!echo abc";
  EXPECT_EQ(training_data_hash(data), "");
  data.format = config::DataFormat::synthetic;
  data.train = scratch.file("moved.txt");
  EXPECT_EQ(training_data_hash(data), "");
}

}  // namespace
}  // namespace lockstep::rundir
