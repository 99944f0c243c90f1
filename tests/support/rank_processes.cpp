#include "tests/support/rank_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/store/server.h"

extern char** environ;

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kTestDeadline{120};
int call_index = 0;

std::string current_test() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

comm::GroupOptions rank_options(int size) {
  comm::GroupOptions options;
  options.rank = std::atoi(std::getenv("LOCKSTEP_TEST_RANK"));
  options.size = size;
  options.store_port = std::atoi(std::getenv("LOCKSTEP_TEST_PORT"));
  options.join_deadline = std::chrono::seconds(30);
  options.deadline = std::chrono::seconds(30);
  return options;
}

[[noreturn]] void run_as_rank(int size, const std::function<void(comm::Group&)>& body,
                              comm::Backend backend, const HostOf& host_of) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    comm::GroupOptions options = rank_options(size);
    options.backend = backend;
    if (host_of) options.host_id = host_of(options.rank);
    const auto group = comm::make_group(options);
    body(*group);
    if (testing::Test::HasFailure()) status = 1;
    group->barrier();
  } catch (const std::exception& error) {
    std::cerr << "rank threw: " << error.what() << std::endl;
    status = 1;
  }
  std::cout.flush();
  std::cerr.flush();
  ::_exit(status);
}

pid_t spawn_rank(int rank, int port, int call, const fs::path& log) {
  const std::string filter = "--gtest_filter=" + current_test();
  std::vector<std::string> env{"LOCKSTEP_TEST_RANK=" + std::to_string(rank),
                               "LOCKSTEP_TEST_PORT=" + std::to_string(port),
                               "LOCKSTEP_TEST_CALL=" + std::to_string(call), "OMP_NUM_THREADS=1"};
  std::vector<char*> envp;
  for (auto& entry : env) envp.push_back(entry.data());
  for (char** e = environ; *e != nullptr; ++e) {
    if (!std::string_view(*e).starts_with("GTEST_") &&
        !std::string_view(*e).starts_with("OMP_NUM_THREADS")) {
      envp.push_back(*e);
    }
  }
  envp.push_back(nullptr);
  const std::string exe = fs::read_symlink("/proc/self/exe");
  std::vector<std::string> args{exe, filter, "--gtest_color=no"};
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int status = ::posix_spawn(&pid, exe.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) throw std::runtime_error("posix_spawn failed");
  return pid;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::unique_ptr<comm::Group> join_another(const comm::Group& group, const std::string& name) {
  comm::GroupOptions options = rank_options(group.size());
  options.name = name;
  return comm::make_group(options);
}

bool in_rank_process() { return std::getenv("LOCKSTEP_TEST_RANK") != nullptr; }

void run_ranks(int size, const std::function<void(comm::Group&)>& body, comm::Backend backend,
               const HostOf& host_of, int victim) {
  static std::string last_test;
  if (last_test != current_test()) {
    last_test = current_test();
    call_index = 0;
  }
  const int call = call_index++;
  if (in_rank_process()) {
    if (call == std::atoi(std::getenv("LOCKSTEP_TEST_CALL"))) {
      run_as_rank(size, body, backend, host_of);
    }
    return;  // an earlier call's body is not this process's work
  }
  std::string folder_name = testing::TempDir() + "lockstep-ranks-XXXXXX";
  const fs::path folder = ::mkdtemp(folder_name.data());
  store::Server server("127.0.0.1", 0);
  std::vector<pid_t> running;
  for (int r = 0; r < size; ++r) {
    running.push_back(spawn_rank(r, server.port(), call, folder / std::to_string(r)));
  }
  const auto end = std::chrono::steady_clock::now() + kTestDeadline;
  int left = size;
  std::string failed;
  while (left > 0) {
    bool progress = false;
    for (int r = 0; r < size; ++r) {
      auto& pid = running[static_cast<std::size_t>(r)];
      int status = 0;
      if (pid <= 0 || ::waitpid(pid, &status, WNOHANG) != pid) continue;
      pid = 0;
      --left;
      progress = true;
      const bool is_well =
          r == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
      if (is_well || !failed.empty()) continue;
      failed = "rank " + std::to_string(r) + " of " + std::to_string(size) +
               " failed (wait status " + std::to_string(status) + "):\n" +
               slurp(folder / std::to_string(r));
      for (const pid_t other : running) {
        if (other > 0) ::kill(other, SIGKILL);
      }
    }
    if (left > 0 && std::chrono::steady_clock::now() > end && failed.empty()) {
      failed = "ranks did not end within two minutes; rank 0 printed:\n" + slurp(folder / "0");
      for (const pid_t other : running) {
        if (other > 0) ::kill(other, SIGKILL);
      }
    }
    if (!progress) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::istringstream printed(slurp(folder / "0"));
  for (std::string line; std::getline(printed, line);) {
    if (line.starts_with("PARITY ")) std::cout << line << std::endl;  // measured beside a tolerance
  }
  fs::remove_all(folder);
  if (!failed.empty()) ADD_FAILURE() << failed;
}

}  // namespace lockstep::test
