// Runs a program as a user would and gives back all that it did; for tests of whole programs.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

struct ProgramOptions {
  std::vector<std::string> extra_env;  // "KEY=value", beside this process's own
  std::chrono::milliseconds deadline{std::chrono::seconds(120)};
};

struct ProgramResult {
  int exit_code = -1;      // -1 when it was killed
  int signal = 0;          // that killed it
  bool timed_out = false;  // the deadline killed it, and its process group
  double seconds = 0;
  /// The most memory that it held at once; never less than what this process held before.
  std::uint64_t peak_rss_bytes = 0;
  std::string out;
  std::string err;

  /// Everything in one text, for a failing assertion.
  [[nodiscard]] std::string describe() const;
};

/// A program of this build: program("lockstep").
[[nodiscard]] std::string program(const std::string& name);

/// Starts argv[0] in its own process group, standard input empty, and waits.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& argv,
                                        const ProgramOptions& options = {});

/// A program that is running; the destructor kills its process group.
class RunningProgram {
 public:
  RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options = {});
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram();

  [[nodiscard]] int pid() const { return pid_; }
  /// What it has printed so far.
  [[nodiscard]] std::string out_so_far() const;
  [[nodiscard]] std::string err_so_far() const;
  void send_signal(int number) const;  // to the program alone
  /// Waits for the end, at most until the deadline since the start.
  [[nodiscard]] ProgramResult wait();

 private:
  int pid_ = -1;
  bool ended_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::milliseconds deadline_;
  std::filesystem::path folder_;  // of the two output files
};

/// A new empty folder, removed with all in it at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace lockstep::test
