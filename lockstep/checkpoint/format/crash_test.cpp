// A writer killed (SIGKILL) before each of its system calls leaves the old checkpoint or the new
// one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/step_reader.h"
#include "lockstep/checkpoint/format/tensor_file.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// A folder in memory where there is one: the many flushes of a sweep are slow on a disk.
class FastFolder {
 public:
  FastFolder() {
    const fs::path memory = "/dev/shm";
    const fs::path parent = fs::is_directory(memory) ? memory : fs::temp_directory_path();
    std::string name = parent / "lockstep-crash-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  FastFolder(const FastFolder&) = delete;
  FastFolder& operator=(const FastFolder&) = delete;
  ~FastFolder() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A checkpoint as save() writes it; `seed` stands for its contents.
void write_step(const fs::path& dir, std::int64_t step, std::int64_t seed, int keep) {
  StepDraft draft(dir, step);
  Manifest manifest;
  manifest.step = step;
  manifest.seed = seed;
  manifest.config_json = "{}";
  TensorFile file(draft.path() / "model.safetensors", {{"w", "U8", {1000}}}, {});
  const std::vector<std::byte> bytes(1000, static_cast<std::byte>(seed));
  manifest.tensors.push_back({"w", "parameter", "U8", {1000}, {}, {file.write(bytes)}});
  manifest.file_bytes["model.safetensors"] = file.commit();
  AtomicFile out(draft.path() / kManifestName);
  const std::string text = write_manifest(manifest);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
  (void)draft.commit();
  remove_old_steps(dir, keep);
}

/// Runs `work` in a child and kills it before its system call number `fatal_call` (from 0).
/// \returns whether it came to that; false: it ended by itself.
bool run_and_kill(const std::function<void()>& work, int fatal_call) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status)) << "this machine does not let a process be traced";
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL);
  for (int stops = 0;; ++stops) {  // two a call: before and after
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
    if (stops < 2 * fatal_call) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return true;
  }
}

/// What survives in `dir`: step and seed of the newest checkpoint, which must be whole.
std::pair<std::int64_t, std::int64_t> survivor(const fs::path& dir) {
  const auto newest = newest_complete(dir);
  if (!newest) return {-1, -1};
  EXPECT_TRUE(verify_step(*newest).empty());
  const Manifest manifest = read_manifest(*newest);
  return {manifest.step, manifest.seed};
}

using StepSeed = std::pair<std::int64_t, std::int64_t>;

/// Kills a save of (step, seed) at every call, each time over a checkpoint of step 1, seed 1.
void sweep(StepSeed saved) {
  const StepSeed old{1, 1};
  int calls = 0;
  int old_left = 0;
  for (bool killed = true; killed; ++calls) {
    const FastFolder scratch;
    write_step(scratch.path(), old.first, old.second, 1);
    killed = run_and_kill([&] { write_step(scratch.path(), saved.first, saved.second, 1); }, calls);
    const StepSeed left = survivor(scratch.path());
    ASSERT_TRUE(left == saved || (killed && left == old)) << "killed before call " << calls;
    old_left += left == old ? 1 : 0;
    write_step(scratch.path(), 7, 7, 1);  // the next save finds nothing in its way
    const auto folder = fs::directory_iterator(scratch.path());
    ASSERT_EQ(std::distance(begin(folder), end(folder)), 1) << "killed before call " << calls;
  }
  EXPECT_GT(calls, 30);
  EXPECT_GT(old_left, 20);
  EXPECT_LT(old_left, calls - 3);
}

TEST(CheckpointCrash, AtEverySystemCallOfASaveOldOrNewIsWhole) { sweep({2, 2}); }

TEST(CheckpointCrash, AtEverySystemCallOfAReplacementOldOrNewIsWhole) { sweep({1, 9}); }

}  // namespace
}  // namespace lockstep::checkpoint
