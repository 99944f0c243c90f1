// A job of `lockstep launch` over several hosts of one switch, as tests of faults start and watch
// it.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/network_switch.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

/// Since it was made.
class Watch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  /// Prints the time, and holds it to three times `bar_s` and a second: a busy machine is slow, and
  /// docs/reliability.md has the figures of a free one.
  void expect_within(double bar_s, const std::string& what) const {
    const double took_s = seconds();
    std::printf("%s: %.2f s (bar: %.2f s)\n", what.c_str(), took_s, bar_s);
    EXPECT_LT(took_s, 3 * bar_s + 1) << what;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Launchers are started on hosts of a switch; the ranks run a script in which $D is a folder of
/// this test.
class HostsJobTest : public testing::Test {
 protected:
  using Launcher = std::unique_ptr<RunningProgram>;

  explicit HostsJobTest(int hosts) : network_(hosts) {
    write_file(folder_ / "secret", std::string(64, '5'));
    std::filesystem::permissions(folder_ / "secret", std::filesystem::perms(0600));
    write_script("rank.sh", kStay);
  }

  /// "up RANK WORLD RESTARTS" holds the process's number once the rank runs.
  static constexpr const char* kUp =
      "echo $$ > $D/new$$; mv $D/new$$ \"$D/up $RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT\"\n";
  static constexpr const char* kStay =
      "echo $$ > $D/new$$; mv $D/new$$ \"$D/up $RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT\"\n"
      "while :; do echo . >> $D/written$$; sleep 0.02; done\n";

  void write_script(const std::string& name, const std::string& body) const {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path, "#!/bin/sh\nD=" + folder_.path().string() + "\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms(0700));
  }

  /// \param words flags, and the program where it is not rank.sh.
  [[nodiscard]] Launcher launch(int host, std::vector<std::string> words,
                                const ProgramOptions& options = {}) const {
    return std::make_unique<RunningProgram>(launch_words(host, std::move(words)), options);
  }
  [[nodiscard]] std::vector<std::string> launch_words(int host,
                                                      std::vector<std::string> words) const {
    words.insert(words.begin(), {program("lockstep"), "launch"});
    return network_.on_host(host, words);
  }
  /// Flags of a job that meets at host 0.
  [[nodiscard]] std::vector<std::string> c10d(const std::string& nnodes, int max_restarts,
                                              const std::string& endpoint = "10.77.0.1:29400",
                                              const std::string& script = "rank.sh") const {
    return {"--nnodes",        nnodes,
            "--rdzv-backend",  "c10d",
            "--rdzv-endpoint", endpoint,
            "--rdzv-id",       folder_.path().filename(),
            "--job-secret",    folder_ / "secret",
            "--max-restarts",  std::to_string(max_restarts),
            "--rdzv-conf",     "last_call_timeout=1",
            folder_ / script};
  }
  /// A server of etcd at the switch, that a job of etcd() meets in.
  [[nodiscard]] Launcher start_etcd() const {
    return std::make_unique<RunningProgram>(network_.on_switch(
        etcd_command(folder_ / "etcd", NetworkSwitch::own_address(), kEtcdPort, kEtcdPort + 1)));
  }
  [[nodiscard]] std::vector<std::string> etcd(const std::string& nnodes, int max_restarts) const {
    return {"--nnodes",         nnodes,
            "--rdzv-backend",   "etcd",
            "--rdzv-endpoint",  address_text(NetworkSwitch::own_address(), kEtcdPort),
            "--max-restarts",   std::to_string(max_restarts),
            "--rdzv-conf",      "last_call_timeout=1",
            folder_ / "rank.sh"};
  }
  /// The same with more flags before the program.
  [[nodiscard]] static std::vector<std::string> with(std::vector<std::string> words,
                                                     const std::vector<std::string>& more) {
    words.insert(words.end() - 1, more.begin(), more.end());
    return words;
  }

  [[nodiscard]] static std::string up(int rank, int world, int restarts) {
    return "up " + std::to_string(rank) + " " + std::to_string(world) + " " +
           std::to_string(restarts);
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(folder_ / name);
  }
  [[nodiscard]] int pid_in(const std::string& name) const {
    int pid = 0;
    std::istringstream(read_file(folder_.path() / name)) >> pid;
    return pid;
  }
  /// All ranks of a round run, one on each host.
  [[nodiscard]] bool all_up(int world, int restarts) const {
    for (int rank = 0; rank < world; ++rank) {
      if (!has(up(rank, world, restarts))) return false;
    }
    return true;
  }
  /// Both launchers of a job of two hosts, with the ranks running.
  [[nodiscard]] std::vector<Launcher> start_two(const std::vector<std::string>& words) const {
    std::vector<Launcher> launchers;
    for (const int host : {0, 1}) launchers.push_back(launch(host, words));
    EXPECT_TRUE(eventually([&] { return all_up(2, 0); }))
        << launchers[0]->err_so_far() << launchers[1]->err_so_far();
    return launchers;
  }
  /// The rank 0 or 1 of a job of two hosts that runs on a host.
  [[nodiscard]] std::string up_on(const RunningProgram& launcher, int world, int restarts) const {
    for (int rank = 0; rank < world; ++rank) {
      const std::string name = up(rank, world, restarts);
      const std::string status = read_file("/proc/" + std::to_string(pid_in(name)) + "/status");
      if (status.find("\nPPid:\t" + std::to_string(launcher.pid()) + "\n") != std::string::npos) {
        return name;
      }
    }
    return "";
  }
  [[nodiscard]] static bool tells(const RunningProgram& launcher, const std::string& text) {
    return launcher.err_so_far().find(text) != std::string::npos;
  }

  static constexpr int kEtcdPort = 2379;

  NetworkSwitch network_;
  TemporaryFolder folder_;
};

}  // namespace lockstep::test
