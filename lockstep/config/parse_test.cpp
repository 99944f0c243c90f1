#include "lockstep/config/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/config/registry.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ParsedConfig parse(std::string_view toml, const std::vector<std::string>& sets = {}) {
  return parse_run_config(toml, "run.toml", sets);
}

/// The only problem of a text; an empty one when there are more or none.
Problem only_problem(std::string_view toml, const std::vector<std::string>& sets = {}) {
  const ParsedConfig parsed = parse(toml, sets);
  EXPECT_EQ(parsed.problems.size(), 1U) << to_text(parsed.problems);
  return parsed.problems.size() == 1 ? parsed.problems.front() : Problem{};
}

TEST(ParseRunConfig, ReadsEverySectionAndType) {
  const ParsedConfig parsed = parse(R"(
[run]
name = "gpt-small"
seed = 7
steps = 100
epochs = 1.5
[model]
family = "gpt"
layers = 2
width = 64
[data]
format = "text"
train = "!bible"
eval_fraction = 0.1
[batch]
global_batch = 64
micro_batch = 8
[optimizer]
name = "adamw"
lr = 1
betas = [0.9, 0.95]
[schedule]
name = "cosine"
warmup_steps = 10
[precision]
compute = "bf16"
[parallel]
data = 2
[recovery]
on_nan = "skip"
)");
  ASSERT_THAT(parsed.problems, IsEmpty()) << to_text(parsed.problems);
  const RunConfig& config = parsed.config;
  EXPECT_EQ(config.run.name, "gpt-small");
  EXPECT_EQ(config.run.steps, 100);
  EXPECT_EQ(config.run.epochs, 1.5);
  EXPECT_EQ(config.model.family, Family::gpt);
  EXPECT_EQ(config.model.heads, ModelSection{}.heads);
  EXPECT_EQ(config.data.train, "!bible");
  EXPECT_EQ(config.batch.global_batch, 64);
  EXPECT_EQ(config.batch.accumulation, std::nullopt);
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(config.schedule.name, ScheduleName::cosine);
  EXPECT_EQ(config.precision.compute, Dtype::bf16);
  EXPECT_EQ(config.parallel.data, 2);
  EXPECT_EQ(config.recovery.on_nan, OnNan::skip);
}

TEST(ParseRunConfig, AnEmptyFileIsTheDefaults) {
  const ParsedConfig parsed = parse("");
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(to_json_text(parsed.config), to_json_text(RunConfig{}));
}

TEST(ParseRunConfig, AMisspeltKeyIsNamedWithItsPlaceAndTheNearest) {
  EXPECT_EQ(only_problem("[optimizer]\n  momentun = 0.9\n"),
            (Problem{"LS-1003", "run.toml:2:3", "unknown key optimizer.momentun",
                     "did you mean optimizer.momentum?"}));
}

TEST(ParseRunConfig, AMisspeltSectionIsReportedOnce) {
  EXPECT_EQ(only_problem("[optimzer]\nlr = 1\nmomentum = 0.9\n"),
            (Problem{"LS-1003", "run.toml:1:1", "unknown section [optimzer]",
                     "did you mean [optimizer]?"}));
}

TEST(ParseRunConfig, AKeyOutsideASectionIsToldWhereItBelongs) {
  EXPECT_EQ(
      only_problem("steps = 3\n"),
      (Problem{"LS-1003", "run.toml:1:1", "steps stands outside a section", "put it under [run]"}));
}

TEST(ParseRunConfig, AWrongTypeSaysWhatTheKeyTakes) {
  EXPECT_EQ(
      only_problem("[run]\nsteps = \"ten\"\n"),
      (Problem{"LS-1004", "run.toml:2:1", "run.steps takes a whole number from 1 up, not text",
               "write a whole number from 1 up"}));
  EXPECT_EQ(only_problem("[run]\nsteps = 1e3\n").fix, "write 1000");
  EXPECT_EQ(only_problem("[optimizer]\nnesterov = 1\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[optimizer]\nlr = true\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[model]\nfamily = 3\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[run]\nname = 1979-05-27\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[run]\nname = { a = 1 }\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[optimizer]\nname = \"adamw\"\nbetas = [0.9]\n").code, "LS-1004");
  EXPECT_EQ(only_problem("[optimizer]\nname = \"adamw\"\nbetas = [0.9, \"x\"]\n").code, "LS-1004");
}

TEST(ParseRunConfig, AValueOutOfRangeOrAnUnknownWordIsRefused) {
  EXPECT_EQ(only_problem("[run]\nsteps = 0\n"),
            (Problem{"LS-1005", "run.toml:2:1", "run.steps cannot be 0",
                     "use a whole number from 1 up"}));
  EXPECT_EQ(only_problem("[model]\nfamily = \"restnet\"\n"),
            (Problem{"LS-1005", "run.toml:2:1", "model.family cannot be \"restnet\"",
                     "did you mean resnet? it is mlp, resnet or gpt"}));
  EXPECT_EQ(only_problem("[optimizer]\nlr = nan\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[optimizer]\nlr = inf\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[optimizer]\nlr = -0.1\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[optimizer]\nmomentum = 1.0\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[run]\nname = \"../x\"\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[run]\nthreads = 9223372036854775807\n").code, "LS-1005");
  EXPECT_EQ(only_problem("[parallel]\ndata = \"all\"\n").code, "LS-1004");
}

TEST(ParseRunConfig, ParallelDataTakesAutoOrANumber) {
  EXPECT_EQ(parse("[parallel]\ndata = \"auto\"\n").config.parallel.data, std::nullopt);
  EXPECT_EQ(parse("[parallel]\ndata = 4\n").config.parallel.data, 4);
  EXPECT_EQ(parse("[parallel]\ndata = 4\n", {"parallel.data=auto"}).config.parallel.data,
            std::nullopt);
}

TEST(ParseRunConfig, ALossScaleIsANumberOrDynamicAndIsReadInFp16Only) {
  const std::string fp16 = "[precision]\ncompute = \"fp16\"\nloss_scale = ";
  EXPECT_EQ(parse(fp16 + "\"dynamic\"\n").config.precision.loss_scale, std::nullopt);
  EXPECT_EQ(parse(fp16 + "1024\n").config.precision.loss_scale, 1024.0);
  EXPECT_EQ(parse(fp16 + "0.5\n").config.precision.loss_scale, 0.5);
  EXPECT_EQ(parse(fp16 + "1024\n", {"precision.loss_scale=dynamic"}).config.precision.loss_scale,
            std::nullopt);
  const RunConfig config = parse(fp16 + "1024\n").config;
  EXPECT_EQ(to_json_text(from_json_text(to_json_text(config))), to_json_text(config));
  EXPECT_EQ(only_problem(fp16 + "0\n").code, "LS-1005");
  EXPECT_EQ(only_problem(fp16 + "\"large\"\n"),
            (Problem{"LS-1004", "run.toml:3:1",
                     "precision.loss_scale takes \"dynamic\" or a number above 0, not text",
                     "write \"dynamic\" or a number above 0"}));
  EXPECT_EQ(only_problem("[precision]\ncompute = \"bf16\"\nloss_scale = 8\n").code, "LS-1007");
}

TEST(ParseRunConfig, AKeyThatTheChoicesDoNotReadIsAnErrorNamingWhoDoes) {
  EXPECT_EQ(only_problem("[model]\nfamily = \"mlp\"\nheads = 4\n"),
            (Problem{"LS-1007", "run.toml:3:1", "model.heads is not read: model.family is \"mlp\"",
                     "remove it, or choose model.family = \"gpt\""}));
  EXPECT_EQ(only_problem("[optimizer]\nname = \"adamw\"\nmomentum = 0.9\n").code, "LS-1007");
  EXPECT_EQ(only_problem("[schedule]\nname = \"one_cycle\"\nfinal_lr_fraction = 0.1\n").code,
            "LS-1007");
  EXPECT_EQ(only_problem("[data]\nformat = \"idx\"\ntrain = \"x\"\nseq_len = 8\n").code, "LS-1007");
}

TEST(ParseRunConfig, AChoiceOnTheCommandLineDropsTheKeysOfTheFileThatItDoesNotReadAndSaysSo) {
  const std::string file =
      "[data]\nformat = \"cifar\"\ntrain = \"x\"\naugment = \"flip\"\ntrain_samples = 9\n";
  const ParsedConfig parsed = parse(file, {"data.format=synthetic"});
  EXPECT_THAT(parsed.problems, IsEmpty()) << to_text(parsed.problems);
  EXPECT_EQ(parsed.config.data.train, "");
  EXPECT_EQ(parsed.config.data.augment, Augment::none);
  EXPECT_EQ(parsed.config.data.train_samples, 9);
  EXPECT_EQ(parsed.notes, (std::vector<std::string>{
                              "run.toml:3:1: data.train is left out: data.format is \"synthetic\" "
                              "by --set",
                              "run.toml:4:1: data.augment is left out: data.format is "
                              "\"synthetic\" by --set"}));
}

TEST(ParseRunConfig, AChoiceOnTheCommandLineStillRefusesKeysGivenBesideIt) {
  EXPECT_EQ(only_problem("", {"optimizer.name=adamw", "optimizer.momentum=0.9"}).code, "LS-1007");
  EXPECT_EQ(only_problem("[optimizer]\nname = \"adamw\"\n", {"optimizer.momentum=0.9"}).code,
            "LS-1007");
}

TEST(ParseRunConfig, AKeyThatNeedsANumberAboveAnotherIsRefusedWithoutIt) {
  EXPECT_EQ(only_problem("[parallel]\nlocal_steps_from = 5\n"),
            (Problem{"LS-1007", "run.toml:2:1",
                     "parallel.local_steps_from is not read: parallel.local_steps is 1",
                     "remove it, or choose parallel.local_steps above 1"}));
  EXPECT_EQ(only_problem("", {"parallel.local_steps=1", "parallel.local_steps_from=0"}).code,
            "LS-1007");
  EXPECT_EQ(only_problem("[optimizer]\ndecay = \"matrices\"\n").code, "LS-1007");
  EXPECT_EQ(only_problem("[optimizer]\nnesterov = true\n").code, "LS-1007");
  EXPECT_EQ(only_problem("[data]\nworkers = 0\nprefetch = 3\n").code, "LS-1007");
  EXPECT_THAT(parse("[parallel]\nlocal_steps_from = 5\nlocal_steps = 2\n").problems, IsEmpty());
  EXPECT_THAT(parse("[data]\nprefetch = 3\n").problems, IsEmpty());
}

TEST(ParseRunConfig, ANumberOnTheCommandLineDropsWhatHangsOnItAndSoDoesAWordBehindIt) {
  const ParsedConfig one =
      parse("[parallel]\nlocal_steps = 4\nlocal_steps_from = 5\n", {"parallel.local_steps=1"});
  EXPECT_THAT(one.problems, IsEmpty()) << to_text(one.problems);
  EXPECT_EQ(one.config.parallel.local_steps_from, 0);
  EXPECT_EQ(one.notes, (std::vector<std::string>{"run.toml:3:1: parallel.local_steps_from is left "
                                                 "out: parallel.local_steps is 1 by --set"}));
  const ParsedConfig two =
      parse("[optimizer]\nnesterov = true\nmomentum = 0.9\n", {"optimizer.name=adamw"});
  EXPECT_THAT(two.problems, IsEmpty()) << to_text(two.problems);
  EXPECT_FALSE(two.config.optimizer.nesterov);
  EXPECT_EQ(two.notes.size(), 2U);
}

TEST(ParseRunConfig, KeysOfTheEvaluationNeedDataToEvaluateOn) {
  const std::string idx = "[run]\neval_every = 5\n[data]\nformat = \"idx\"\ntrain = \"x\"\n";
  EXPECT_EQ(only_problem(idx).code, "LS-1007");
  EXPECT_EQ(only_problem(idx).where, "run.toml:2:1");
  EXPECT_THAT(parse(idx + "eval = \"y\"\neval_samples = 9\n").problems, IsEmpty());
  EXPECT_EQ(only_problem("", {"data.format=idx", "data.train=x", "data.eval_samples=3"}).where,
            "--set data.eval_samples");
  EXPECT_THAT(parse("", {"run.eval_every=0"}).problems, IsEmpty());
  EXPECT_THAT(parse("[run]\neval_every = 5\n[data]\neval_samples = 9\n").problems, IsEmpty());
  const ParsedConfig dropped = parse(idx + "eval = \"y\"\n", {"data.eval="});
  EXPECT_THAT(dropped.problems, IsEmpty()) << to_text(dropped.problems);
  EXPECT_EQ(dropped.config.run.eval_every, 0);
  EXPECT_EQ(dropped.notes.size(), 1U);
  // What may have been meant as data.eval is no reason to blame another key.
  EXPECT_EQ(only_problem(idx + "evall = \"y\"\n").code, "LS-1003");
}

TEST(ParseRunConfig, ASetWithoutAValueUnsetsAKey) {
  const std::string file = "[run]\nsteps = 3\n[data]\nformat = \"text\"\ntrain = \"x\"\n";
  const ParsedConfig parsed = parse(file, {"run.steps=", "data.train=", "data.format="});
  EXPECT_THAT(parsed.problems, IsEmpty()) << to_text(parsed.problems);
  EXPECT_FALSE(parsed.config.run.steps.has_value());
  EXPECT_EQ(parsed.config.data.train, "");
  EXPECT_EQ(parsed.config.data.format, RunConfig{}.data.format);
  EXPECT_EQ(only_problem("", {"run.stesp="}).code, "LS-1003");
}

TEST(ParseRunConfig, TwoSourcesOfEvaluationDataAreOneTooMany) {
  const std::string file =
      "[data]\nformat = \"text\"\ntrain = \"x\"\neval = \"y\"\neval_fraction = 0.1\n";
  const Problem problem = only_problem(file);
  EXPECT_EQ(problem.code, "LS-1007");
  EXPECT_EQ(problem.where, "run.toml:5:1");
  EXPECT_THAT(parse(file, {"data.eval="}).problems, IsEmpty());
  EXPECT_THAT(parse(file, {"data.eval_fraction=0"}).problems, IsEmpty());
}

TEST(ParseRunConfig, NumbersSayWhatIsWrongWithThem) {
  EXPECT_THAT(only_problem("", {"optimizer.name=adamw", "optimizer.betas=0.9"}).what,
              HasSubstr("not a number with a point"));
  const Problem one = only_problem("[optimizer]\nname = \"adamw\"\nbetas = [0.9]\n");
  EXPECT_THAT(one.what, HasSubstr("not a list of 1 number"));
  EXPECT_THAT(one.fix, HasSubstr("as in [0.9, 0.999]"));
  EXPECT_THAT(only_problem("", {"optimizer.lr=1e-400"}).what,
              HasSubstr("not a number beyond 64 bits (1e-400)"));
  EXPECT_THAT(only_problem("", {"optimizer.lr=inf"}).what, HasSubstr("infinity or nan (inf)"));
  const Problem large = only_problem("", {"optimizer.lr=1e9"});
  EXPECT_EQ(large.what, "optimizer.lr cannot be 1e+09");
  EXPECT_EQ(large.fix, "use a number from 0 to 1,000,000");
  EXPECT_THAT(only_problem("", {"run.steps=9000000000000000"}).fix,
              HasSubstr("to 1,000,000,000,000"));
}

TEST(ParseRunConfig, TextThatIsNotClosedIsCalledSo) {
  for (const char* file :
       {"[run]\nname = \"abc\n", "[run]\nname = \"abc", "[run]\nname = 'abc\n"}) {
    const ParsedConfig parsed = parse(file);
    ASSERT_FALSE(parsed.problems.empty()) << file;
    EXPECT_THAT(parsed.problems.front().what, HasSubstr("not closed")) << file;
  }
}

TEST(ParseRunConfig, TellsWhichSectionsCannotBeTrusted) {
  EXPECT_THAT(parse("[batch]\nmicro_bacth = 3\n").faulty_sections, testing::ElementsAre("batch"));
  EXPECT_THAT(parse("[bacth]\nmicro_batch = 3\n").faulty_sections, testing::Contains("batch"));
  EXPECT_THAT(parse("", {"model.width=-1"}).faulty_sections, testing::ElementsAre("model"));
  EXPECT_THAT(parse("[batch]\nmicro_batch = 3\n").faulty_sections, IsEmpty());
}

TEST(ParseRunConfig, AnUnknownChoiceDoesNotBlameTheKeysThatHangOnIt) {
  EXPECT_EQ(only_problem("[model]\nfamily = \"gtp\"\nheads = 4\n").where, "run.toml:2:1");
}

TEST(ParseRunConfig, AKeyGivenTwiceIsReportedAndReadingGoesOn) {
  const ParsedConfig parsed = parse("[run]\nseed = 1\nseed = 2\nstpes = 3\n");
  ASSERT_EQ(parsed.problems.size(), 2U) << to_text(parsed.problems);
  EXPECT_EQ(parsed.problems[0], (Problem{"LS-1006", "run.toml:3:1", "given a second time: seed = 2",
                                         "keep one of the two"}));
  EXPECT_EQ(parsed.problems[1].where, "run.toml:4:1");
}

TEST(ParseRunConfig, FindsAllProblemsInTheOrderOfTheFile) {
  const ParsedConfig parsed =
      parse("[run]\nsteps = yes\nseed = \"x\"\n[model]\nfamly = \"gpt\"\nwidth = 0\n[nothing]\n",
            {"run.threads=0", "junk", "optimizer.lrr=3"});
  std::vector<std::string> where;
  for (const Problem& problem : parsed.problems) where.push_back(problem.where);
  EXPECT_THAT(where, testing::ElementsAre("run.toml:2:9", "run.toml:3:1", "run.toml:5:1",
                                          "run.toml:6:1", "run.toml:7:1", "--set run.threads",
                                          "--set junk", "--set optimizer.lrr"))
      << to_text(parsed.problems);
}

TEST(ParseRunConfig, SetReadsEveryType) {
  const ParsedConfig parsed =
      parse("", {"run.name='a b'", "run.name=abc", "run.steps=5", "optimizer.lr=1e-3",
                 "optimizer.name=adamw", "optimizer.betas=[0.8, 0.9]", "run.epochs=2",
                 "data.format=text", "data.train=\"!bible | head\""});
  ASSERT_EQ(parsed.problems.size(), 1U) << to_text(parsed.problems);
  EXPECT_EQ(parsed.problems[0].where, "--set run.name");
  EXPECT_EQ(parsed.config.run.name, "abc");
  EXPECT_EQ(parsed.config.run.steps, 5);
  EXPECT_EQ(parsed.config.optimizer.lr, 1e-3);
  EXPECT_EQ(parsed.config.optimizer.betas[0], 0.8);
  EXPECT_EQ(parsed.config.run.epochs, 2.0);
  EXPECT_EQ(parsed.config.data.train, "!bible | head");
}

TEST(ParseRunConfig, SetRefusesWhatIsNoValueOfTheKey) {
  EXPECT_EQ(only_problem("", {"run.steps"}).code, "LS-1008");
  EXPECT_EQ(only_problem("", {"=3"}).code, "LS-1008");
  EXPECT_EQ(only_problem("", {"run.steps=5x"}).code, "LS-1004");
  EXPECT_EQ(only_problem("", {"optimizer.nesterov=yes"}).code, "LS-1004");
  EXPECT_EQ(only_problem("", {"steps=5"}).fix, "did you mean run.steps?");
}

TEST(ParseRunConfig, TwoBatchNumbersBySetDropTheFilesThird) {
  const std::string file = "[batch]\nglobal_batch = 64\nmicro_batch = 8\naccumulation = 2\n";
  const BatchSection batch =
      parse(file, {"batch.micro_batch=4", "batch.global_batch=32"}).config.batch;
  EXPECT_EQ(batch.global_batch, 32);
  EXPECT_EQ(batch.micro_batch, 4);
  EXPECT_EQ(batch.accumulation, std::nullopt);
  EXPECT_EQ(parse(file, {"batch.micro_batch=4"}).config.batch.accumulation, 2);
}

TEST(ParseRunConfig, KeepsLettersOfEveryLanguageInTextAndRefusesThemOutside) {
  const std::string text = "d\u00e4ta/\u65e5\u672c/\U0001F600\ufeff";
  EXPECT_EQ(parse("\ufeff[data]\nformat = \"text\"\ntrain = \"" + text + "\"  # \u00e4\n")
                .config.data.train,
            text);
  const Problem problem = only_problem("[run]\nsteps = \u00e4\n");
  EXPECT_EQ(problem.code, "LS-1002");
  EXPECT_EQ(problem.where, "run.toml:2:9");
  EXPECT_EQ(only_problem("[run]\nseed = 1\nseed = 2 # \u00e4\n").what,
            "given a second time: seed = 2 # \u00e4");
}

TEST(ParseRunConfig, TakesHostileTextWithoutHarm) {
  std::vector<std::string> texts{std::string(1, '\0'),
                                 "\xff\xfe",
                                 "[",
                                 "[[[x]]]\n",
                                 "[[run]]\nx=1\n",
                                 "=",
                                 "a",
                                 "[run]\nname = \"\"\"abc",
                                 "run = 3\n",
                                 "run.seed.x = 1\n",
                                 "[run]\nname = \"a\\u0000b\"\n",
                                 "[run]\nsteps = 1e999\n",
                                 "[run]\nsteps = 99999999999999999999\n",
                                 "\"\" = 1\n",
                                 "[run.seed]\nx = 1\n"};
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "a.";
  texts.push_back(deep + "a = 1\n");
  texts.push_back("x = " + std::string(100'000, '['));
  texts.push_back("x = " + std::string(100'000, '{'));
  texts.push_back(std::string(2'000'000, 'a'));
  std::string twice;
  for (int i = 0; i < 500; ++i) twice += "a = 1\n";
  texts.push_back(twice);
  for (const std::string& text : texts) {
    const ParsedConfig parsed = parse(text);
    ASSERT_FALSE(parsed.problems.empty()) << text.substr(0, 40);
    for (const Problem& problem : parsed.problems) EXPECT_LT(to_text({problem}).size(), 1000U);
  }
}

TEST(LoadRunConfig, NamesAMissingFile) {
  try {
    (void)load_run_config("/nonexistent/run.toml");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_EQ(error.problems()[0].code, "LS-1001");
    EXPECT_EQ(error.problems()[0].where, "/nonexistent/run.toml");
  }
  EXPECT_THROW((void)load_run_config("/"), UsageError);
}

TEST(ConfigJson, CarriesEveryKeyThereAndBack) {
  const RunConfig config =
      parse("[run]\nsteps = 5\n[optimizer]\nlr = 0.1\n[parallel]\nvirtual_ranks = 4\n").config;
  const std::string json = to_json_text(config);
  for (const Option& option : options()) {
    EXPECT_THAT(json, HasSubstr("\"" + std::string(option.name()) + "\":"));
  }
  EXPECT_EQ(to_json_text(from_json_text(json)), json);
  EXPECT_EQ(from_json_text(json).parallel.virtual_ranks, 4);
  EXPECT_EQ(from_json_text(json).run.epochs, std::nullopt);
}

TEST(ConfigJson, RefusesWhatIsNotAConfiguration) {
  for (const char* text :
       {"", "[]", "{\"run\":3}", "{\"run\":{\"seed\":null}}", "{\"run\":{\"seed\":\"x\"}}",
        "{\"run\":{\"sed\":1}}", "{\"run\":{\"seed\":18446744073709551615}}", "{\"x\":{\"y\":1}}",
        "{\"run\":{\"name\":{}}}", "{\"optimizer\":{\"betas\":[1,null]}}"}) {
    EXPECT_THROW((void)from_json_text(text), UsageError) << text;
  }
}

TEST(ConfigHash, ChangesWithAnyValueAndOnlyThen) {
  RunConfig config;
  const std::string hash = config_hash(config);
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(config_hash(RunConfig{}), hash);
  config.run.steps = 1;
  EXPECT_NE(config_hash(config), hash);
}

TEST(ParseRunConfig, AnAutomaticMicroBatchIsNotAnUnsetOne) {
  const ParsedConfig parsed = parse("[batch]\nglobal_batch = 64\nmicro_batch = \"auto\"\n");
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_TRUE(parsed.config.batch.finds_micro_batch);
  EXPECT_FALSE(parsed.config.batch.micro_batch.has_value());
  EXPECT_THAT(to_json_text(parsed.config), HasSubstr("\"micro_batch\":\"auto\""));
  EXPECT_TRUE(from_json_text(to_json_text(parsed.config)).batch.finds_micro_batch);
  EXPECT_NE(config_hash(parsed.config), config_hash(parse("[batch]\nglobal_batch = 64\n").config));
  EXPECT_EQ(only_problem("[batch]\nmicro_batch = \"many\"\n").code, "LS-1004");
}

TEST(ParseRunConfig, SetTurnsAnAutomaticMicroBatchOnAndOff) {
  const std::string file = "[batch]\nmicro_batch = 8\naccumulation = 4\n";
  const BatchSection found = parse(file, {"batch.micro_batch=auto"}).config.batch;
  EXPECT_TRUE(found.finds_micro_batch);
  EXPECT_FALSE(found.micro_batch.has_value());
  EXPECT_FALSE(found.accumulation.has_value()) << "it follows from the micro-batch";
  const std::string auto_file = "[batch]\nglobal_batch = 64\nmicro_batch = \"auto\"\n";
  EXPECT_EQ(parse(auto_file, {"batch.micro_batch=16"}).config.batch.micro_batch, 16);
  EXPECT_FALSE(parse(auto_file, {"batch.micro_batch=16"}).config.batch.finds_micro_batch);
  EXPECT_FALSE(parse(auto_file, {"batch.micro_batch="}).config.batch.finds_micro_batch);
}

TEST(ParseRunConfig, ADescribedModelHasNoOtherKeys) {
  const auto described = parse_run_config("[model]\nconfig = \"llama-3-8b\"\n", "run.toml");
  EXPECT_TRUE(described.problems.empty());
  EXPECT_EQ(described.config.model.config, "llama-3-8b");
  EXPECT_EQ(described.given, (std::vector<std::string>{"model.config"}));
  EXPECT_EQ(
      only_problem("[model]\nconfig = \"gpt2\"\nheads = 4\n"),
      (Problem{"LS-1007", "run.toml:3:1", "model.heads is not read: model.config names the model",
               "remove one of the two; on the command line `--set model.config=` unsets a "
               "key"}));
}

TEST(ParseRunConfig, ADescribedModelOnTheCommandLineLeavesTheFilesKeysOut) {
  const std::string toml = "[model]\nfamily = \"gpt\"\nheads = 4\n";
  const auto set = parse_run_config(toml, "run.toml", {"model.config=gpt2"});
  EXPECT_TRUE(set.problems.empty());
  EXPECT_EQ(set.notes.size(), 2U);
  EXPECT_EQ(set.config.model.heads, ModelSection{}.heads);
  EXPECT_EQ(set.given, (std::vector<std::string>{"model.config"}));
  const auto unset = parse_run_config("[model]\nconfig = \"gpt2\"\n", "run.toml",
                                      {"model.config=", "model.family=gpt", "model.heads=4"});
  EXPECT_TRUE(unset.problems.empty());
  EXPECT_EQ(unset.config.model.config, "");
}

}  // namespace
}  // namespace lockstep::config
