#include "tests/support/run_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

extern char** environ;

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// A variable given in `extra` replaces the inherited one.
std::vector<std::string> environment_with(const std::vector<std::string>& extra) {
  std::vector<std::string> merged = extra;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited(*entry);
    const auto name = inherited.substr(0, inherited.find('=') + 1);
    bool replaced = false;
    for (const auto& given : extra) replaced = replaced || given.starts_with(name);
    if (!replaced) merged.emplace_back(inherited);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return name;
}

}  // namespace

std::string ProgramResult::describe() const {
  std::string text =
      timed_out ? "killed by the test's deadline" : "exit " + std::to_string(exit_code);
  if (signal != 0) text += ", signal " + std::to_string(signal);
  return text + " after " + std::to_string(seconds) + " s\n--- out\n" + out + "\n--- err\n" + err;
}

std::string program(const std::string& name) {
  return (fs::path(LOCKSTEP_BINARY_DIR) / "bin" / name).string();
}

RunningProgram::RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options)
    : start_(std::chrono::steady_clock::now()),
      deadline_(options.deadline),
      folder_(make_folder()) {
  auto args = argv;
  auto env = environment_with(options.extra_env);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = folder_ / "out";
  const std::string err = folder_ / "err";
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int status = ::posix_spawnp(&pid_, args.front().c_str(), &actions, &attributes,
                                    pointers(args).data(), pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (status != 0) {
    fs::remove_all(folder_);
    throw std::runtime_error("cannot start " + argv.front() + ": " + std::strerror(status));
  }
}

RunningProgram::~RunningProgram() {
  ::kill(-pid_, SIGKILL);
  if (!ended_) ::waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string RunningProgram::out_so_far() const { return read_file(folder_ / "out"); }
std::string RunningProgram::err_so_far() const { return read_file(folder_ / "err"); }
void RunningProgram::send_signal(int number) const { ::kill(pid_, number); }

ProgramResult RunningProgram::wait() {
  ProgramResult result;
  int status = 0;
  struct rusage usage {};
  while (::wait4(pid_, &status, WNOHANG, &usage) == 0) {
    if (!result.timed_out && std::chrono::steady_clock::now() - start_ > deadline_) {
      result.timed_out = true;
      ::kill(-pid_, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ended_ = true;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  result.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10U;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = out_so_far();
  result.err = err_so_far();
  return result;
}

ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  return RunningProgram(argv, options).wait();
}

TemporaryFolder::TemporaryFolder() : path_(make_folder()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace lockstep::test
