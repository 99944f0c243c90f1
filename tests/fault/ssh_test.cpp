// Launchers on other hosts over a real ssh: their order arrives whole and unseen, and they end when
// one of them, a signal, or the death of this side says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/starters/ssh_job.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/ssh_server.h"
#include "tests/support/tiny_run.h"

extern char** environ;

namespace lockstep::test {
namespace {

using starters::RemoteAgent;
using starters::SshJobOptions;
using starters::SshJobResult;
using testing::Contains;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class Ssh : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new SshServer; }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  /// /bin/sh -c SCRIPT on each host, in this test's folder, with $HOST set.
  [[nodiscard]] SshJobOptions job(const std::vector<std::string>& hosts,
                                  const std::string& script) {
    SshJobOptions options;
    options.ssh.config_file = server_->client_config();
    options.program = program("lockstep");
    for (char** one = environ; *one != nullptr; ++one) options.own_environment.emplace_back(*one);
    for (const std::string& host : hosts) {
      options.agents.push_back({host,
                                {.command = {"/bin/sh", "-c", script, "sh"},
                                 .environment = {"HOST=" + host},
                                 .folder = folder_.path(),
                                 .secret = ""}});
    }
    options.on_line = [this](const std::string& host, bool is_stderr, const std::string& text) {
      lines_.push_back(host + (is_stderr ? "! " : ": ") + text);
    };
    return options;
  }

  /// Runs the job in a process of its own, as a launcher is.
  int start(const SshJobOptions& options) {
    const int pid = ::fork();
    if (pid != 0) return pid;
    int status = 99;
    try {
      status = static_cast<int>(run_over_ssh(options).exit);
    } catch (const Error& error) {
      status = 100 + static_cast<int>(error.exit());
    }
    ::_exit(status);
  }

  static int exit_of(int pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// The process numbers that a script left in file `name`.
  [[nodiscard]] std::vector<int> pids_in(const std::string& name) const {
    std::istringstream text(read_file(folder_ / name));
    std::vector<int> pids;
    for (int pid = 0; text >> pid;) pids.push_back(pid);
    return pids;
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }

  static SshServer* server_;
  TemporaryFolder folder_;
  std::vector<std::string> lines_;
};

SshServer* Ssh::server_ = nullptr;

// Leaves the numbers of itself and a child in the file $HOST, then waits.
constexpr const char* kWaits = "sleep 100 & echo $$ $! > tmp$HOST; mv tmp$HOST $HOST; wait";

TEST_F(Ssh, AnOrderArrivesWholeOnEveryHostAndTheSecretOnADescriptor) {
  SshJobOptions options =
      job({"node-a", "node-b"}, "pwd; echo \"$HOST|$WORD|$1\"; cat <&3; echo; echo to stderr >&2");
  const std::string hostile = "it's $(id) `id` \\ \"x\" ; & | * \t end";
  for (RemoteAgent& agent : options.agents) {
    agent.order.environment.push_back("WORD=" + hostile);
    agent.order.command.push_back(hostile);
    agent.order.secret = std::string(64, 'f');
  }
  const SshJobResult result = run_over_ssh(options);
  EXPECT_EQ(result.exit, Exit::ok);
  for (const std::string host : {"node-a", "node-b"}) {
    EXPECT_THAT(lines_, Contains(host + ": " + folder_.path().string()));
    EXPECT_THAT(lines_, Contains(host + ": " + host + "|" + hostile + "|" + hostile));
    EXPECT_THAT(lines_, Contains(host + ": " + std::string(64, 'f')));
    EXPECT_THAT(lines_, Contains(host + "! to stderr"));
  }
}

TEST_F(Ssh, ALargeOrderArrivesToo) {
  SshJobOptions options = job({"node-a"}, "echo ${#WORD}");
  options.agents[0].order.environment.push_back("WORD=" + std::string(100'000, 'x'));
  for (int i = 0; i < 10; ++i) {
    options.agents[0].order.environment.push_back("MORE" + std::to_string(i) + "=" +
                                                  std::string(100'000, 'y'));
  }
  EXPECT_EQ(run_over_ssh(options).exit, Exit::ok);
  EXPECT_THAT(lines_, Contains("node-a: 100000"));
}

TEST_F(Ssh, AFailedHostIsNamedAndEndsTheOthers) {
  SshJobOptions options =
      job({"node-a", "node-b"},
          std::string(
              "[ $HOST = node-b ] && { while [ ! -e node-a ]; do sleep 0.01; done; exit 3; };") +
              kWaits);
  options.follow_time = std::chrono::milliseconds(100);
  const SshJobResult result = run_over_ssh(options);
  EXPECT_EQ(result.exit, Exit::environment);
  ASSERT_TRUE(result.first_failure);
  EXPECT_EQ(result.first_failure->code, "LS-3085");
  EXPECT_EQ(result.first_failure->where, "node-b");
  EXPECT_THAT(result.first_failure->what, HasSubstr("exit code 3"));
  ASSERT_EQ(result.ends.size(), 2U);
  EXPECT_TRUE(result.ends[1].ended_by_us);
  for (const int pid : pids_in("node-a")) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
}

TEST_F(Ssh, HostsThatMayGoOnWithoutAnotherDo) {
  SshJobOptions options = job({"node-a", "node-b"}, "[ $HOST = node-a ] || exit 1");
  options.ends_together = false;
  EXPECT_EQ(run_over_ssh(options).exit, Exit::ok);
}

TEST_F(Ssh, SigtermReachesEveryHostAndASavedStateIsSeventyFive) {
  const int pid = start(job({"node-a", "node-b"},
                            "trap 'echo saved > saved$HOST; exit 75' TERM; : > up$HOST; "
                            "while :; do sleep 0.01; done"));
  EXPECT_TRUE(eventually([&] { return has("upnode-a") && has("upnode-b"); }));
  ::kill(pid, SIGTERM);
  EXPECT_EQ(exit_of(pid), static_cast<int>(Exit::requeue));
  EXPECT_TRUE(has("savednode-a") && has("savednode-b"));
}

TEST_F(Ssh, ASecondSignalKills) {
  const int pid = start(job({"node-a"},
                            "trap ': > asked' TERM; echo $$ > tmp; mv tmp up; "
                            "while :; do sleep 0.01; done"));
  EXPECT_TRUE(eventually([&] { return has("up"); }));
  ::kill(pid, SIGTERM);
  EXPECT_TRUE(eventually([&] { return has("asked"); }));
  ::kill(pid, SIGTERM);
  EXPECT_EQ(exit_of(pid), static_cast<int>(Exit::failed));
  EXPECT_TRUE(eventually([&] { return is_gone(pids_in("up").at(0)); }));
}

TEST_F(Ssh, NothingIsLeftOnAnyHostWithinASecondOfTheLaunchersDeath) {
  const int pid = start(job({"node-a", "node-b"}, kWaits));
  EXPECT_TRUE(eventually([&] { return has("node-a") && has("node-b"); }));
  std::vector<int> pids = pids_in("node-a");
  for (const int other : pids_in("node-b")) pids.push_back(other);
  ASSERT_EQ(pids.size(), 4U);
  const auto start = Clock::now();
  ::kill(pid, SIGKILL);
  EXPECT_EQ(exit_of(pid), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return std::all_of(pids.begin(), pids.end(), is_gone); }));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
}

TEST_F(Ssh, AHostThatCannotBeReachedIsAnEnvironmentFaultWithSshsOwnWords) {
  for (const auto& [host, words] : std::vector<std::pair<std::string, std::string>>{
           {"refused", "Connection refused"}, {"stranger", "Host key verification failed"}}) {
    const SshJobResult result = run_over_ssh(job({host}, "true"));
    EXPECT_EQ(result.exit, Exit::environment);
    ASSERT_TRUE(result.first_failure);
    EXPECT_EQ(result.first_failure->code, "LS-3081");
    EXPECT_EQ(result.first_failure->where, host);
    EXPECT_THAT(result.first_failure->what, HasSubstr(words));
  }
}

TEST_F(Ssh, AHostWithoutTheProgramOrTheFolderIsNamed) {
  SshJobOptions options = job({"node-a"}, "true");
  options.ssh.remote_program = "/nowhere/it's lockstep";
  const SshJobResult missing = run_over_ssh(options);
  EXPECT_EQ(missing.exit, Exit::environment);
  EXPECT_EQ(missing.first_failure.value_or(Problem{}).code, "LS-3084");
  SshJobOptions elsewhere = job({"node-a"}, "true");
  elsewhere.agents[0].order.folder = "/nowhere";
  EXPECT_EQ(run_over_ssh(elsewhere).exit, Exit::environment);
  EXPECT_THAT(lines_, Contains(HasSubstr("LS-3083")));
}

TEST_F(Ssh, LaunchStartsTheRanksOfAHostOfItsList) {
  write_file(folder_ / "hosts", "node-a slots=2  # over there\n");
  const std::vector<std::string> argv{program("lockstep"),
                                      "launch",
                                      "--hostfile",
                                      folder_ / "hosts",
                                      "--ssh-config",
                                      server_->client_config(),
                                      "--no-python",
                                      "sh",
                                      "-c",
                                      "echo \"rank $RANK of $WORLD_SIZE: $LOCKSTEP_WORD\""};
  const ProgramResult result = run_program(argv, {.extra_env = {"LOCKSTEP_WORD=it's $(id)"}});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("[node-a] rank 0 of 2: it's $(id)\n"));
  EXPECT_THAT(result.out, HasSubstr("[node-a] rank 1 of 2: it's $(id)\n"));
}

TEST_F(Ssh, LaunchOnTwoHostsMakesOneJobOfThem) {
  const std::string port = std::to_string(listen_on("127.0.0.1", 0).port);
  const ProgramResult result =
      run_program({program("lockstep"), "launch", "--hosts", "node-a:2,node-b:1", "--rdzv-endpoint",
                   "127.0.0.1:" + port, "--ssh-config", server_->client_config(), "--no-python",
                   "sh", "-c", "echo \"rank $RANK of $WORLD_SIZE\""});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("[node-a] rank 0 of 3\n"));
  EXPECT_THAT(result.out, HasSubstr("[node-a] rank 1 of 3\n"));
  EXPECT_THAT(result.out, HasSubstr("[node-b] rank 2 of 3\n"));
}

TEST_F(Ssh, LaunchOnTwoHostsMeetsInEtcdToo) {
  const EtcdServer etcd;
  std::vector<std::string> argv{program("lockstep"),
                                "launch",
                                "--hosts",
                                "node-a:2,node-b:1",
                                "--rdzv-backend",
                                "etcd",
                                "--rdzv-endpoint",
                                etcd.address(),
                                "--rdzv-id",
                                "over-ssh",
                                "--ssh-config",
                                server_->client_config(),
                                "--no-python",
                                "sh",
                                "-c",
                                "echo \"rank $RANK of $WORLD_SIZE\""};
  for (int i = 0; i < 2; ++i) {  // what the first job left does not hold up the next of its name
    const ProgramResult result = run_program(argv);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_LT(result.seconds, 3);
    EXPECT_THAT(result.out, HasSubstr("[node-a] rank 0 of 3\n"));
    EXPECT_THAT(result.out, HasSubstr("[node-b] rank 2 of 3\n"));
  }
  argv.erase(argv.begin() + 6, argv.begin() + 8);
  const ProgramResult nowhere = run_program(argv);
  EXPECT_EQ(nowhere.exit_code, 2) << nowhere.describe();
  EXPECT_THAT(nowhere.err, HasSubstr("--rdzv-endpoint"));
}

/// `lockstep train` on two hosts over ssh.
class SshTrain : public Ssh {
 protected:
  SshTrain() {
    write_file(folder_ / "run.toml",
               to_toml({.run = "steps = 4000\n", .more = "[checkpoint]\nevery = 20\n"}));
  }
  [[nodiscard]] std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> argv{
        program("lockstep"),     "train",     folder_ / "run.toml", "--hosts",
        "node-a:1,node-b:1",     "--run-dir", folder_ / "run",      "--ssh-config",
        server_->client_config()};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  [[nodiscard]] std::string events() const {
    return read_file(folder_.path() / "run" / "events.jsonl");
  }
  /// The process of a rank of this run, wherever it is; 0 when there is none.
  [[nodiscard]] int worker(int rank) const {
    const std::string variable = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const bool is_of_run =
          read_file(entry.path() / "cmdline").find(folder_.path()) != std::string::npos;
      if (is_of_run && read_file(entry.path() / "environ").find(variable) != std::string::npos) {
        return std::stoi(name);
      }
    }
    return 0;
  }
  [[nodiscard]] static std::string free_endpoint() {
    return "127.0.0.1:" + std::to_string(listen_on("127.0.0.1", 0).port);
  }
};

TEST_F(SshTrain, ARunOnTwoHostsOutlivesAKilledRankAndEndsWell) {
  const EtcdServer etcd;
  for (const auto& [backend, endpoint] : std::vector<std::pair<std::string, std::string>>{
           {"c10d", free_endpoint()}, {"etcd", etcd.address()}}) {
    std::filesystem::remove_all(folder_.path() / "run");
    RunningProgram job(
        train({"--rdzv-backend", backend, "--rdzv-endpoint", endpoint, "--max-restarts", "1"}));
    ASSERT_TRUE(eventually([&] { return events().find("\"step\":40,") != std::string::npos; }))
        << job.err_so_far();
    const int rank = worker(1);
    ASSERT_GT(rank, 0);
    ::kill(rank, SIGKILL);
    const ProgramResult result = job.wait();
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.err, HasSubstr("restart 1 of 1"));
    EXPECT_THAT(read_file(folder_.path() / "run" / "summary.json"), HasSubstr("\"steps\":4000"));
  }
}

TEST_F(SshTrain, ASignalHereSavesThere) {
  RunningProgram job(train({"--rdzv-endpoint", free_endpoint()}));
  ASSERT_TRUE(eventually([&] { return events().find("\"step\":10,") != std::string::npos; }))
      << job.err_so_far();
  job.send_signal(SIGTERM);
  const ProgramResult result = job.wait();
  EXPECT_EQ(result.exit_code, 75) << result.describe();
}

TEST_F(Ssh, LaunchEndsWithTheCodeOfAFailedHost) {
  const ProgramResult result = run_program({program("lockstep"), "launch", "--hosts", "node-a:1",
                                            "--ssh-config", server_->client_config(), "--no-python",
                                            "sh", "-c", "echo because >&2; exit 9"});
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("[node-a] "));
  EXPECT_THAT(result.err, HasSubstr("because"));
  EXPECT_THAT(result.err, HasSubstr("node-a: error LS-3085"));
}

TEST_F(Ssh, ThisMachineItselfNeedsNoSsh) {
  SshJobOptions options = job({"127.0.0.1", "localhost"}, "echo here");
  options.ssh.ssh = "/nowhere/ssh";
  EXPECT_EQ(run_over_ssh(options).exit, Exit::ok);
  EXPECT_THAT(lines_, testing::UnorderedElementsAre("127.0.0.1: here", "localhost: here"));
  EXPECT_FALSE(starters::is_this_machine("192.0.2.1"));
  EXPECT_FALSE(starters::is_this_machine("no-such-host.invalid"));
}

/// `lockstep launch` with these hosts, dry.
ProgramResult dry_run(std::vector<std::string> hosts) {
  hosts.insert(hosts.begin(), {program("lockstep"), "launch"});
  hosts.insert(hosts.end(), {"--dry-run", "--max-restarts", "3", "--no-python", "sh"});
  return run_program(hosts);
}

TEST(LaunchOnHosts, ABadOrMissingHostfileIsAUsageErrorAndNeverALocalRun) {
  const TemporaryFolder folder;
  write_file(folder / "hosts", "node-a slots=8\nnode-b lots=8\n");
  const ProgramResult bad = dry_run({"--hostfile", folder / "hosts"});
  EXPECT_EQ(bad.exit_code, 2) << bad.describe();
  EXPECT_THAT(bad.err, HasSubstr("hosts:2:8: error LS-1041: unknown key 'lots'\n"
                                 "  fix: did you mean slots?\n"));
  const ProgramResult missing = dry_run({"--hostfile", folder / "none"});
  EXPECT_EQ(missing.exit_code, 2) << missing.describe();
  EXPECT_THAT(missing.err, HasSubstr("none: error LS-1001"));
  EXPECT_EQ(bad.out + missing.out, "");
  const ProgramResult hostile = dry_run({"--hosts", "node-a:2,-oProxyCommand=id:2"});
  EXPECT_EQ(hostile.exit_code, 2) << hostile.describe();
  EXPECT_THAT(hostile.err, HasSubstr("--hosts: error LS-1042"));
}

TEST(LaunchOnHosts, ADryRunSaysWhatIsStartedWhereAndHidesTheSecret) {
  const ProgramResult result = dry_run({"--hosts", "node-a:2,node-b:4"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("on node-a, in "));
  EXPECT_THAT(result.out, HasSubstr(" launch --nproc-per-node 2 --nnodes 2 --node-rank 0 "
                                    "--rdzv-backend c10d --rdzv-endpoint node-a:29400 --rdzv-id "));
  EXPECT_THAT(result.out, HasSubstr(" launch --nproc-per-node 4 --nnodes 2 --node-rank 1 "));
  EXPECT_THAT(result.out, HasSubstr(" --max-restarts 3 --no-python sh\n"));
  EXPECT_THAT(result.out, HasSubstr("PET_JOB_SECRET=fd:3\n"));
  const ProgramResult elastic =
      dry_run({"--hosts", "node-a,node-b,node-c", "--nnodes", "2:3", "--rdzv-backend", "c10d"});
  EXPECT_THAT(elastic.out, HasSubstr(" --nnodes 2:3 ")) << elastic.describe();
}

/// Environments in which each launcher would start all ranks of its node (L4).
TEST(LaunchOnHosts, SeveralLaunchersOnANodeAreRefusedWhereTheJobSpansNodes) {
  const std::vector<std::string> slurm{"SLURM_JOB_ID=4711",
                                       "SLURM_STEP_ID=0",
                                       "SLURM_NODEID=1",
                                       "SLURM_NTASKS=16",
                                       "SLURM_TASKS_PER_NODE=8(x2)",
                                       "SLURM_JOB_NODELIST=dgx[001-002]"};
  const std::vector<std::string> argv{program("lockstep"), "launch", "--nproc-per-node", "8",
                                      "--no-python",       "true"};
  const ProgramResult refused = run_program(argv, {.extra_env = slurm});
  EXPECT_EQ(refused.exit_code, 2) << refused.describe();
  EXPECT_THAT(refused.err, HasSubstr("LS-1044: Slurm starts 8 launchers on dgx002"));
  EXPECT_THAT(refused.err, HasSubstr("--ntasks-per-node=1"));
  std::vector<std::string> alone = argv;
  alone.insert(alone.begin() + 2, "--standalone");
  alone[4] = "1";
  const ProgramResult noted = run_program(alone, {.extra_env = slurm});
  EXPECT_EQ(noted.exit_code, 0) << noted.describe();
  EXPECT_THAT(noted.err, HasSubstr("8 launchers"));
}

TEST(RemoteAgent, WithoutAnOrderItSaysWhatItIs) {
  const ProgramResult result = run_program({program("lockstep"), "--remote-agent"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("LS-3082"));
}

}  // namespace
}  // namespace lockstep::test
