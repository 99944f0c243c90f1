// lockstep launch as a user meets it: what it starts, what it prints, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

ProgramResult launch(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), {program("lockstep"), "launch"});
  ProgramOptions options;
  options.extra_env = std::move(environment);
  return run_program(words, options);
}

/// The lines of `text`, sorted: ranks print in any order.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Launch, RanksFindTorchrunsEnvironmentAndTheirOwnArguments) {
  const TemporaryFolder folder;
  write_file(folder / "train.py",
             "import os, sys\n"
             "print(os.environ['RANK'], os.environ['LOCAL_WORLD_SIZE'], sys.argv[1:])\n");
  const auto result = launch({"--nproc-per-node", "2", folder / "train.py", "--nnodes", "x"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(sorted_lines(result.out),
            (std::vector<std::string>{"0 2 ['--nnodes', 'x']", "1 2 ['--nnodes', 'x']"}));
}

TEST(Launch, WithoutTeeOutputIsAsItCameAndWithItEachLineNamesItsRank) {
  EXPECT_EQ(launch({"--no-python", "printf", "a\\rb\\nc"}).out, "a\rb\nc");
  EXPECT_EQ(launch({"--tee", "1", "--role", "trainer", "--no-python", "echo", "hello"}).out,
            "[trainer0]:hello\n");
  EXPECT_EQ(launch({"--tee=3", "--no-python", "echo", "hello"},
                   {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=<${rank} of ${role_name}> "})
                .out,
            "<0 of default> hello\n");
}

TEST(Launch, OutputGoesWhereTorchrunPutsIt) {
  const TemporaryFolder folder;
  const auto result =
      launch({"--nproc-per-node=2", "--log-dir", folder / "logs", "-r", "0:3,1:1", "--rdzv-id",
              "job", "--no-python", "sh", "-c", "echo out $RANK; echo err $RANK >&2"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const fs::path attempt = fs::path(folder / "logs") / "job" / "attempt_0";
  EXPECT_EQ(read_file(attempt / "0" / "stdout.log"), "out 0\n");
  EXPECT_EQ(read_file(attempt / "0" / "stderr.log"), "err 0\n");
  EXPECT_EQ(read_file(attempt / "1" / "stdout.log"), "out 1\n");
  EXPECT_FALSE(fs::exists(attempt / "1" / "stderr.log"));
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("err 1\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("err 0")));
}

TEST(Launch, AFailureIsToldWithItsTraceback) {
  const TemporaryFolder folder;
  write_file(folder / "train.py",
             "import os, time\n"
             "if os.environ['RANK'] == '1': raise ValueError('no data')\n"
             "time.sleep(60)\n");
  const auto result = launch({"--nproc-per-node", "2", folder / "train.py"});
  EXPECT_EQ(result.exit_code, 1);
  const std::string text = std::regex_replace(
      result.err.substr(result.err.find("train.py failed")),
      std::regex(
          "after [0-9.]+ m?s|pid [0-9]+|[0-9-]+ [0-9]+:[0-9:]+|host +.*|on [^ ]+ was|\"/.*/"),
      "#");
  EXPECT_EQ(text,
            "train.py failed: rank 1 ended with exit code 1, #\n"
            "  time        #\n"
            "  #\n"
            "  rank        1 (local rank 1, #)\n"
            "  traceback\n"
            "    | Traceback (most recent call last):\n"
            "    |   File #train.py\", line 2, in <module>\n"
            "    |     if os.environ['RANK'] == '1': raise ValueError('no data')\n"
            "    |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "    | ValueError: no data\n"
            "as a consequence\n"
            "  rank 0 # stopped by SIGTERM (#)\n");
}

TEST(Launch, AsJsonThereIsOneDocumentOnStandardOutput) {
  const auto done = launch({"--json", "--no-python", "echo", "hello"});
  EXPECT_EQ(done.out, "{\"status\":\"done\",\"restarts\":0}\n");
  EXPECT_EQ(done.err, "hello\n");
  const auto result = launch({"--json", "--no-python", "sh", "-c", "echo why >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 1);
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["errors"][0]["code"], "LS-3006");
  EXPECT_THAT(document["errors"][0]["what"].get<std::string>(), HasSubstr("exit code 3"));
}

TEST(Launch, EveryWrongFlagIsToldAtOnce) {
  const auto result = launch({"--nnode", "2", "--nproc_per_node", "fou", "--tee", "9", "train.py"},
                             {"PET_RDZV_BACKEND=c11d"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "--nnode: error LS-1012: unknown flag of launch\n"
            "  fix: did you mean --nnodes?\n"
            "--nproc-per-node: error LS-1013: cannot be fou\n"
            "  fix: use a number, auto, cpu, gpu or xpu\n"
            "PET_RDZV_BACKEND: error LS-1013: cannot be c11d\n"
            "  fix: did you mean c10d?\n"
            "--tee: error LS-1013: cannot be 9\n"
            "  fix: use 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:STREAMS,... as in "
            "0:3,1:0\n");
}

TEST(Launch, AScriptThatDoesNotExistIsAnErrorOfUse) {
  const auto result = launch({"no/train.py"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no/train.py: error LS-1001: there is no such script"));
}

TEST(Launch, AProgramThatCannotBeStartedIsAnErrorOfUseThatSaysWhatToDo) {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    fs::permissions(folder / name, fs::perms::owner_all);
    return folder / name;
  };
  const auto windows = launch({made("windows", "#!/bin/sh\r\necho hello\r\n")});
  EXPECT_EQ(windows.exit_code, 2) << windows.describe();
  EXPECT_THAT(windows.err, HasSubstr("fix: take them away: sed -i 's/\\r$//' "));
  EXPECT_THAT(launch({made("missing", "#!/no/such/sh\n")}).err, HasSubstr("/no/such/sh"));
  const auto empty = launch({""});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.err, HasSubstr("PROGRAM is empty"));
  const auto bare = launch({made("bare", "echo hello\n")});
  EXPECT_EQ(bare.exit_code, 3) << "what the kernel takes shows when it is started";
  EXPECT_THAT(bare.err, HasSubstr("#!/bin/sh"));
  EXPECT_THAT(launch({made("a.py", "")}, {"PYTHON_EXEC=no-such-python"}).err,
              HasSubstr("PYTHON_EXEC names the Python"));
}

TEST(Launch, ASwitchTakesNoValue) {
  const auto result = launch({"--standalone=0", "--no-python", "true"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("--standalone: error LS-1013: takes no value"));
}

TEST(Launch, ErrorFilesAreFoundFromAnyFolder) {
  const TemporaryFolder folder;
  const auto result = run_program(
      {"sh", "-c",
       "cd " + folder.path().string() + "; exec " + program("lockstep") +
           " launch --log-dir logs --no-python sh -c 'cd /; echo $TORCHELASTIC_ERROR_FILE'"});
  EXPECT_THAT(result.out, testing::StartsWith("/")) << result.describe();
}

TEST(Launch, ADryRunPrintsCommandsAndEnvironmentAndStartsNothing) {
  const TemporaryFolder folder;
  write_file(folder / "train.py", "open('/nowhere/x', 'w')\n");
  const auto result = launch({"--dry-run", "--json", "--nproc-per-node", "2", "--node-rank", "1",
                              "--nnodes", "2", "--master-addr", "head", folder / "train.py", "a b"},
                             {"PYTHON_EXEC=/opt/python"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const auto hosts = nlohmann::json::parse(result.out)["hosts"];
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0]["ranks"][1]["rank"], 1) << "what the other host starts is known too";
  EXPECT_EQ(hosts[0]["ranks"][1]["environment"]["MASTER_PORT"], "29500");
  const auto ranks = hosts[1]["ranks"];
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[1]["rank"], 3);
  EXPECT_EQ(ranks[1]["command"], nlohmann::json({"/opt/python", "-u", folder / "train.py", "a b"}));
  EXPECT_EQ(ranks[1]["environment"]["WORLD_SIZE"], "4");
  EXPECT_EQ(ranks[1]["environment"]["GROUP_RANK"], "1");
  EXPECT_EQ(ranks[1]["environment"]["MASTER_ADDR"], "head");
}

TEST(Launch, ThreadsAreSharedWhereNobodyHasChosen) {
  const std::vector<std::string> words{"--nproc-per-node",     "2", "--no-python", "sh", "-c",
                                       "echo $OMP_NUM_THREADS"};
  const auto chosen = launch(words, {"OMP_NUM_THREADS=7"});
  EXPECT_EQ(chosen.out, "7\n7\n");
  EXPECT_EQ(chosen.err, "");
}

TEST(Launch, OneRankReadsTheLaunchersInputAndOneOfSeveralNone) {
  const std::string words = program("lockstep") + " launch --quiet --no-python cat";
  EXPECT_EQ(run_program({"sh", "-c", "echo hello | " + words}).out, "hello\n");
  const std::string two =
      program("lockstep") + " launch --quiet --nproc-per-node 2 --no-python cat";
  EXPECT_EQ(run_program({"sh", "-c", "echo hello | " + two}).out, "");
}

TEST(Launch, EachRankMayBeBoundToCoresOfItsOwn) {
  const auto result = launch({"--nproc-per-node", "2", "--bind-cores", "--no-python", "grep",
                              "Cpus_allowed_list", "/proc/self/status"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const auto lines = sorted_lines(result.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0], lines[1]);
}

}  // namespace
}  // namespace lockstep::test
