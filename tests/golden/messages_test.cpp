// What a person reads when something is asked or goes wrong, word for word.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

ProgramResult lockstep(std::vector<std::string> words) {
  words.insert(words.begin(), program("lockstep"));
  return run_program(words);
}

/// What `lockstep plan run.toml` says about a file; the folder's name is left out.
std::string complaints_about(const std::string& toml, std::vector<std::string> more = {}) {
  const TemporaryFolder folder;
  write_file(folder / "run.toml", toml);
  more.insert(more.begin(), {"plan", folder / "run.toml"});
  const ProgramResult result = lockstep(more);
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_EQ(result.out, "");
  std::string text = result.err;
  const std::string prefix = folder.path().string() + "/";
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
    text.erase(at, prefix.size());
  }
  return text;
}

TEST(HelpText, OfAKey) {
  EXPECT_EQ(lockstep({"help", "schedule.final_lr_fraction"}).out,
            "schedule.final_lr_fraction: rate after the last step divided by the peak\n"
            "\n"
            "  takes    a number from 0 to 1\n"
            "  default  0\n"
            "  read     when schedule.name = \"linear\" or \"cosine\"\n");
}

TEST(HelpText, OfACode) {
  EXPECT_EQ(lockstep({"help", "LS-1011"}).out,
            "LS-1011: unknown command\n\n`lockstep help` lists the commands.\n");
}

TEST(HelpText, OfACommandStartsWithExamples) {
  const std::string expected =
      "  # explain a configuration key\n"
      "  lockstep help optimizer.lr\n"
      "  # list the keys of a section\n"
      "  lockstep help optimizer\n"
      "  # explain an error code; `lockstep help errors` lists all\n"
      "  lockstep help LS-1003\n"
      "  # examples and flags of a command\n"
      "  lockstep help plan\n"
      "  # for editors; run.toml then begins with `#:schema ./run.schema.json`\n"
      "  lockstep help --schema > run.schema.json\n"
      "\n"
      "Without a name it lists the commands.\n"
      "\n"
      "Usage: lockstep help [NAME] ... [flags]\n"
      "\n"
      "  NAME                        command, section, section.key, LS-nnnn or errors\n"
      "  --markdown config|cli|choosing\n"
      "                              print docs/config.md, docs/cli.md or docs/guides/choosing.md\n"
      "  --schema                    print the JSON Schema of RUN.toml, for editors\n"
      "  -h, --help                  show examples and flags\n"
      "  --json                      one JSON document, or JSON lines, on standard output\n"
      "  -q, --quiet                 only results and errors\n"
      "  --no-color                  no colours (also by NO_COLOR)\n";
  EXPECT_EQ(lockstep({"help", "--help"}).out, expected);
}

TEST(ErrorText, OfAMisspeltKey) {
  EXPECT_EQ(complaints_about("[optimizer]\nmomentun = 0.9\n"),
            "run.toml:2:1: error LS-1003: unknown key optimizer.momentun\n"
            "  fix: did you mean optimizer.momentum?\n");
}

TEST(ErrorText, OfAWrongType) {
  EXPECT_EQ(complaints_about("[run]\nsteps = \"many\"\n"),
            "run.toml:2:1: error LS-1004: run.steps takes a whole number from 1 up, not text\n"
            "  fix: write a whole number from 1 up\n");
}

TEST(ErrorText, OfAKeyThatNothingReads) {
  EXPECT_EQ(complaints_about("[model]\nfamily = \"resnet\"\nheads = 4\n"),
            "run.toml:3:1: error LS-1007: model.heads is not read: model.family is \"resnet\"\n"
            "  fix: remove it, or choose model.family = \"gpt\"\n");
}

TEST(ErrorText, OfABatchThatDoesNotDivide) {
  EXPECT_EQ(complaints_about("[batch]\nglobal_batch = 10\n", {"--nproc-per-node", "4"}),
            "batch.global_batch: error LS-1009: global_batch 10 is not 4 ranks x a whole "
            "micro_batch\n"
            "  fix: use 8 or 12\n");
}

TEST(ErrorText, OfSeveralAtOnce) {
  EXPECT_EQ(complaints_about("[run]\nsteps = 0\nseeds = 3\n[modle]\nx = 1\n",
                             {"--set", "optimizer.lr=fast"}),
            "run.toml:2:1: error LS-1005: run.steps cannot be 0\n"
            "  fix: use a whole number from 1 up\n"
            "run.toml:3:1: error LS-1003: unknown key run.seeds\n"
            "  fix: did you mean run.seed?\n"
            "run.toml:4:1: error LS-1003: unknown section [modle]\n"
            "  fix: did you mean [model]?\n"
            "--set optimizer.lr: error LS-1004: optimizer.lr takes a number from 0 up, not text\n"
            "  fix: write a number from 0 up\n");
}

TEST(ErrorText, OfFlags) {
  const ProgramResult result = lockstep({"plan", "--nproc_per_node", "0", "--chekc"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "--nproc-per-node: error LS-1013: cannot be 0\n"
            "  fix: use a whole number from 1 to 1,024\n"
            "--chekc: error LS-1012: unknown flag of plan\n"
            "  fix: did you mean --check?\n");
}

TEST(ErrorText, OfAMissingFile) {
  const ProgramResult result = lockstep({"plan", "no-such-run.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "no-such-run.toml: error LS-1001: the run's TOML file cannot be read\n"
            "  fix: check the path; it is taken from the folder this command runs in\n");
}

TEST(ErrorText, WithJsonIsOneDocumentOnStandardOutput) {
  const ProgramResult result = lockstep({"plan", "--set", "run.sede=1", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(
      result.out,
      "{\"errors\":[{\"code\":\"LS-1003\",\"where\":\"--set run.sede\",\"what\":\"unknown key "
      "run.sede\",\"fix\":\"did you mean run.seed?\"}]}\n");
}

TEST(Plan, ChecksWhetherItFitsByItsExitCode) {
  const std::vector<std::string> huge{
      "plan", "--check", "--json", "--set", "model.width=1000000", "--set", "model.layers=100"};
  const ProgramResult result = lockstep(huge);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_EQ(nlohmann::json::parse(result.out).at("fits"), false);
  EXPECT_EQ(lockstep({"plan", "--check"}).exit_code, 0);
}

TEST(Plan, OfAbsurdNumbersFitsNowhereAndIsNotNegative) {
  const ProgramResult result =
      lockstep({"plan", "--check", "--json", "--set", "model.layers=10000", "--set",
                "model.width=1000000", "--set", "batch.micro_batch=1000000000"});
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document.at("fits"), false);
  for (const auto& [category, bytes] : document.at("memory_bytes").items()) {
    EXPECT_GE(bytes.get<std::int64_t>(), 0) << category;
  }
}

TEST(Plan, LeavesOutKeysThatTheDataChosenOnTheCommandLineDoNotRead) {
  const ProgramResult result =
      lockstep({"plan", std::string(LOCKSTEP_SOURCE_DIR) + "/examples/resnet18_cifar/run.toml",
                "--json", "--set", "data.format=synthetic"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_NE(result.err.find("note: "), std::string::npos);
  EXPECT_NE(result.err.find("data.train is left out: data.format is \"synthetic\" by --set"),
            std::string::npos);
}

/// A run with faults of every kind ends at once, with all of them, and leaves no folder.
TEST(Train, FindsFaultsOfBatchAndDataTogetherAndMakesNoRunDirectory) {
  const TemporaryFolder folder;
  const std::string run_dir = folder / "run";
  const std::vector<std::string> start{"train", "--run-dir", run_dir, "--json",
                                       folder / "run.toml"};
  const auto errors_of = [&](std::vector<std::string> more, int exit_code) {
    more.insert(more.begin(), start.begin(), start.end());
    const ProgramResult result = lockstep(more);
    EXPECT_EQ(result.exit_code, exit_code) << result.describe();
    EXPECT_FALSE(std::filesystem::exists(run_dir));
    std::vector<std::string> codes;
    const auto document = nlohmann::json::parse(result.out);
    for (const auto& error : document.at("errors")) {
      codes.push_back(error.at("code").get<std::string>() + " " +
                      error.at("where").get<std::string>());
    }
    return codes;
  };
  write_file(folder / "run.toml",
             "[data]\nformat = \"idx\"\ntrain = \"/nowhere\"\neval = \"/nowhere\"\n"
             "[batch]\nglobal_batch = 15\n");
  EXPECT_EQ(errors_of({"--nproc-per-node", "2", "--set", "optimizer.lr=fast"}, 2),
            (std::vector<std::string>{"LS-1004 --set optimizer.lr", "LS-1009 batch.global_batch",
                                      "LS-2001 data.train", "LS-2001 data.eval"}));
  EXPECT_EQ(errors_of({}, 3),
            (std::vector<std::string>{"LS-2001 data.train", "LS-2001 data.eval"}));
}

TEST(Train, ARankOfSomebodyElsesJobFindsMissingDataBeforeItMakesARunDirectory) {
  const TemporaryFolder folder;
  write_file(folder / "run.toml", "[data]\nformat = \"idx\"\ntrain = \"/nowhere\"\n");
  const ProgramResult result =
      run_program({program("lockstep"), "train", folder / "run.toml", "--run-dir", folder / "run"},
                  {.extra_env = {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"}});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("data.train: error LS-2001"), std::string::npos) << result.describe();
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Train, CorruptDataEndWithFourBeforeAnythingIsStarted) {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    write_file(folder / ("data_batch_" + std::to_string(i) + ".bin"), "");
  }
  write_file(folder / "run.toml", "");
  const ProgramResult result =
      lockstep({"train", "--run-dir", folder / "run", "--set", "data.format=cifar", "--set",
                "data.train=" + folder.path().string(), "--set", "model.family=resnet", "--set",
                "model.channels=3", "--set", "model.image_size=32", folder / "run.toml"});
  EXPECT_EQ(result.exit_code, 4) << result.describe();
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Train, MoreRanksThanAHostRunsAreRefusedBeforeAPlanIsPrinted) {
  const TemporaryFolder folder;
  write_file(folder / "run.toml", "");
  const ProgramResult result = lockstep(
      {"train", "--run-dir", folder / "run", "--nproc-per-node", "1025", folder / "run.toml"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("from 1 to 1,024"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  const ProgramResult bench =
      lockstep({"bench", "scaling", folder / "run.toml", "--ranks", "1,1025"});
  EXPECT_EQ(bench.exit_code, 2);
  EXPECT_NE(bench.err.find("--ranks"), std::string::npos) << bench.err;
  EXPECT_EQ(bench.err.find("--nproc-per-node"), std::string::npos) << bench.err;
}

TEST(Train, SaysThatARunWithoutALengthIsOneEpoch) {
  const TemporaryFolder folder;
  write_file(folder / "run.toml",
             "[data]\ntrain_samples = 8\n[batch]\nmicro_batch = 8\n"
             "[model]\nlayers = 1\nwidth = 8\n");
  const ProgramResult result =
      lockstep({"train", "--run-dir", folder / "run", folder / "run.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const std::string text = result.out + result.err;
  EXPECT_NE(text.find("1 epoch: run.steps and run.epochs are unset"), std::string::npos) << text;
}

TEST(Train, OverNcclIsRefusedOnEveryMachine) {
  const TemporaryFolder folder;
  write_file(folder / "run.toml", "");
  const ProgramResult result =
      run_program({program("lockstep"), "train", "--run-dir", folder / "run", folder / "run.toml"},
                  {.extra_env = {"LOCKSTEP_BACKEND=nccl", "CUDA_VISIBLE_DEVICES="}});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("LOCKSTEP_BACKEND: error LS-4018"), std::string::npos)
      << result.describe();
}

}  // namespace
}  // namespace lockstep::test
