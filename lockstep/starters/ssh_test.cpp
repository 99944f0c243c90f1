#include "lockstep/starters/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::starters {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::string joined(const std::vector<std::string>& argv) {
  std::string text;
  for (const auto& word : argv) text += (text.empty() ? "" : "|") + word;
  return text;
}

TEST(Ssh, TheCommandOverThereIsOneWordAndFixed) {
  const auto argv = ssh_argv({}, "node-a", "/usr/bin/lockstep");
  EXPECT_EQ(joined(argv),
            "ssh|-T|-o|BatchMode=yes|-o|ConnectTimeout=10|-o|ServerAliveInterval=5|-o|"
            "ServerAliveCountMax=3|-o|LogLevel=ERROR|--|node-a|exec /usr/bin/lockstep "
            "--remote-agent");
}

TEST(Ssh, OptionsStandBeforeTheHost) {
  const auto argv =
      ssh_argv({.ssh = "/opt/ssh", .port = 2222, .identity = "/k 1", .config_file = "f"},
               "10.0.0.7", "lockstep");
  EXPECT_EQ(argv.front(), "/opt/ssh");
  const std::vector<std::string> options{"-F", "f", "-p", "2222", "-i", "/k 1", "--", "10.0.0.7"};
  EXPECT_NE(std::search(argv.begin(), argv.end(), options.begin(), options.end()), argv.end())
      << joined(argv);
}

TEST(Ssh, AHostileProgramPathIsQuotedAndAHostileHostIsABug) {
  EXPECT_EQ(ssh_argv({}, "a", "/my dir/$(id)/lockstep").back(),
            "exec '/my dir/$(id)/lockstep' --remote-agent");
  for (const char* host : {"-oProxyCommand=id", "a b", "a;id", ""}) {
    EXPECT_THROW((void)ssh_argv({}, host, "lockstep"), Bug) << host;
  }
}

TEST(Ssh, PassesOnWhatRanksOfEveryHostShouldSee) {
  EXPECT_THAT(
      passed_on({"PYTHONPATH=/a", "NCCL_DEBUG=INFO", "LOCKSTEP_BACKEND=gloo",
                 "MLFLOW_TRACKING_URI=http://m", "OMP_NUM_THREADS=2", "PATH=/bin", "HOME=/h",
                 "AWS_SECRET_ACCESS_KEY=k", "LOCKSTEP_ADDRESS=10.0.0.1", "LOCKSTEP_REPORT_FD=3",
                 "CUDA_VISIBLE_DEVICES=0", "SSH_AUTH_SOCK=/s", "PYTHON FUNCTION()=() { :; }"}),
      ElementsAre("PYTHONPATH=/a", "NCCL_DEBUG=INFO", "LOCKSTEP_BACKEND=gloo",
                  "MLFLOW_TRACKING_URI=http://m", "OMP_NUM_THREADS=2"));
}

TEST(Ssh, ReadsDeepSpeedsEnvironmentFile) {
  const VariableLines lines = parse_variable_lines(
      "NCCL_IB_DISABLE=1\r\n\n# ours\nA_B=x = 'y z'\nEMPTY=\n", ".deepspeed_env");
  EXPECT_THAT(lines.problems, IsEmpty());
  EXPECT_THAT(lines.variables, ElementsAre("NCCL_IB_DISABLE=1", "A_B=x = 'y z'", "EMPTY="));
}

TEST(Ssh, LinesThatAreNoVariablesAreNamed) {
  const VariableLines lines = parse_variable_lines("A=1\nexport B=2\n=3\nC\n4D=5\n", "env");
  ASSERT_EQ(lines.problems.size(), 4U);
  EXPECT_EQ(lines.problems[0].where, "env:2:1");
  EXPECT_EQ(lines.problems[3].where, "env:5:1");
}

}  // namespace
}  // namespace lockstep::starters
