// What disks do to checkpoints: full, over quota, read-only, gone, slow, or the program killed at
// any write. A save is there whole or not at all, on all ranks, and training goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const TinyRun kRun{.run = "steps = 10\n",
                   .more =
                       "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\n\n"
                       "[checkpoint]\nevery = 5\nkeep = 1\n"};

/// One line of the log of tests/support/disk_faults.cpp.
struct Call {
  std::string rank;
  long save = -1;
  std::string kind;
  std::string path;

  [[nodiscard]] bool opens() const { return kind == "open" || kind == "create"; }
  [[nodiscard]] bool changes() const { return kind != "open" && kind != "close"; }
};

std::vector<Call> read_log(const fs::path& file) {
  std::istringstream lines(read_file(file));
  std::vector<Call> calls;
  for (Call call; lines >> call.rank >> call.save >> call.kind >> call.path;) calls.push_back(call);
  return calls;
}

/// The first line of `text` that has `part`; all of it when none has.
std::string line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == text.npos) return "no \"" + part + "\" in " + text;
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

std::string join(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string number(long value) { return std::to_string(value); }

class CheckpointDisk : public TinyRunTest {
 protected:
  CheckpointDisk() : TinyRunTest(kRun), root_(fs::canonical(folder_.path())) {}

  [[nodiscard]] fs::path dir(const std::string& run_dir = "run") const {
    return root_ / run_dir / "checkpoints";
  }
  [[nodiscard]] ProgramOptions with(const std::vector<std::string>& rules,
                                    const std::string& run_dir = "run") const {
    const std::string path = "path=" + dir(run_dir).string() + ";log=" + (folder_ / "log");
    return {.extra_env = {std::string("LD_PRELOAD=") + LOCKSTEP_DISK_FAULTS,
                          "LOCKSTEP_TEST_DISK=" + path + "|" + join(rules, "|")},
            .deadline = std::chrono::seconds(120)};
  }
  /// Two ranks, on a disk that does what `rules` say.
  [[nodiscard]] ProgramResult train(const std::vector<std::string>& rules,
                                    const std::vector<std::string>& settings = {},
                                    const std::string& run_dir = "run") const {
    std::vector<std::string> words{"--nproc-per-node", "2"};
    for (const std::string& word : set_words(settings)) words.push_back(word);
    return run_program(command(words, run_dir), with(rules, run_dir));
  }
  [[nodiscard]] ProgramResult ckpt(const std::vector<std::string>& words,
                                   const std::string& run_dir = "run") const {
    std::vector<std::string> argv{program("lockstep"), "ckpt"};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.push_back(folder_ / run_dir);
    return run_program(argv, with({}, run_dir));
  }
  [[nodiscard]] std::string state_of(const std::string& run_dir = "run") const {
    const auto summary = json::parse(read_file(root_ / run_dir / "summary.json"), nullptr, false);
    return summary.is_object() ? summary.value("state_sha256", "no hash") : "no summary";
  }
  /// All of it, hidden or not, but for the lock.
  [[nodiscard]] std::set<std::string> names_in(const fs::path& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    names.erase("lock");
    return names;
  }
  /// What a run without rules does to the folder; its log starts anew.
  [[nodiscard]] std::vector<Call> calls_of_a_run(const std::vector<std::string>& settings,
                                                 const std::string& run_dir) const {
    fs::remove(folder_ / "log");
    const ProgramResult result = train({}, settings, run_dir);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    return read_log(folder_ / "log");
  }

  fs::path root_;  // as the kernel names it
};

/// How often a rank changes something in the save of a step.
int changes_of(const std::vector<Call>& calls, int rank, long save) {
  return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const Call& call) {
    return call.rank == number(rank) && call.save == save && call.changes();
  }));
}

int opens_of(const std::vector<Call>& calls, const std::string& rank) {
  return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const Call& call) {
    return call.rank == rank && call.opens();
  }));
}

struct Refusal {
  const char* error;
  const char* reason;  // in the message
  const char* fix;
};

constexpr Refusal kRefusals[] = {
    {"ENOSPC", "No space left on the disk", "free some space"},
    {"EDQUOT", "quota", "ask for a larger quota"},
    {"EROFS", "the file system is read-only", "mount it writable"},
    {"ESTALE", "stale handle", "mount the network file system again"},
    {"EIO", "the disk reports an error", "dmesg"},
};

class CheckpointDiskRefuses : public CheckpointDisk, public testing::WithParamInterface<bool> {
 protected:
  /// With the saves behind the training or not.
  [[nodiscard]] static std::vector<std::string> settings(std::vector<std::string> more) {
    if (GetParam()) more.emplace_back("checkpoint.async=true");
    return more;
  }

  /// The note that the save of `step` failed on `rank` has what a user needs.
  void expect_told(const std::string& out, long step, int rank, const Refusal& refusal) const {
    const std::string line =
        line_with(out, "checkpoint of step " + number(step) + " not saved, training goes on");
    const std::string draft = (dir() / (".step-" + number(step) + ".tmp")).string();
    EXPECT_THAT(line, HasSubstr("rank " + number(rank) + ": " + draft));
    for (const char* part : {refusal.reason, refusal.fix, "the checkpoint needs ", "free are "}) {
      EXPECT_THAT(line, HasSubstr(part));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Saves, CheckpointDiskRefuses, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "BehindTheTraining" : "BeforeItGoesOn");
});

struct FailedSave {
  long step = 0;
  int rank = 0;
  Refusal refusal;
};

/// Every second save fails, each in another way; the last one is good.
TEST_P(CheckpointDiskRefuses, EachErrorAtEachCallOfEitherRankCostsThatSaveOnAllAndNoOther) {
  std::vector<FailedSave> failed;
  std::vector<std::string> rules;
  long step = 0;
  for (const Refusal& refusal : kRefusals) {
    for (const char* kind : {"write", "fsync", "rename"}) {
      for (const int rank : {1, 0}) {
        step += 2;
        failed.push_back({step, rank, refusal});
        rules.push_back("save=" + number(step) + ";rank=" + number(rank) + ";fail=" + kind +
                        ";errno=" + refusal.error);
      }
    }
  }
  const auto words = settings({"run.steps=" + number(step + 1), "checkpoint.every=1"});
  const ProgramResult result = train(rules, [&] {
    auto all = words;
    all.emplace_back("checkpoint.keep=1000");
    return all;
  }());
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  std::set<std::string> expected;
  for (long good = 1; good <= step + 1; good += 2) expected.insert("step-" + number(good));
  EXPECT_EQ(names_in(dir()), expected) << result.describe();
  for (const FailedSave& one : failed) {
    expect_told(result.out, one.step, one.rank, one.refusal);
  }
  const ProgramResult verified = ckpt({"verify"});
  EXPECT_EQ(verified.exit_code, 0) << verified.describe();
  const ProgramResult undisturbed = train({}, words, "undisturbed");
  EXPECT_EQ(undisturbed.exit_code, 0) << undisturbed.describe();
  EXPECT_EQ(state_of(), state_of("undisturbed"));
}

/// The disk is not asked for what it has: it says so at a write, behind some that were good.
TEST_P(CheckpointDiskRefuses, ADiskThatIsFullThoughItReportsSpaceIsToldSo) {
  const ProgramResult result =
      train({"save=5;rank=1;fail=write;errno=ENOSPC;after_bytes=100"}, settings({}));
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  expect_told(result.out, 5, 1, kRefusals[0]);
  EXPECT_THAT(result.out, HasSubstr("one of the disks behind this file system is full"));
  EXPECT_EQ(names_in(dir()), std::set<std::string>{"step-10"});
}

/// One failed call a save, each call of a save in turn.
TEST_P(CheckpointDiskRefuses, AtWhicheverCallASaveFailsItIsToldAndNothingOfItIsThere) {
  const std::vector<Call> calls =
      calls_of_a_run({"run.steps=3", "checkpoint.every=1", "checkpoint.keep=1000"}, "counted");
  std::vector<std::string> rules;
  long step = 0;
  for (const int rank : {0, 1}) {
    const int changes = changes_of(calls, rank, 2);
    EXPECT_GT(changes, rank == 0 ? 20 : 7);
    for (int at = 1; at <= changes; ++at) {
      step += 2;
      rules.push_back("save=" + number(step) + ";rank=" + number(rank) + ";at=" + number(at) +
                      ";fail=any;errno=EIO");
    }
  }
  const ProgramResult result = train(
      rules,
      settings({"run.steps=" + number(step + 1), "checkpoint.every=1", "checkpoint.keep=1000"}));
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  std::set<std::string> expected;
  for (long good = 1; good <= step + 1; ++good) {
    const std::string note = "checkpoint of step " + number(good) + " not saved";
    const bool failed = result.out.find(note) != std::string::npos;
    EXPECT_EQ(failed, good % 2 == 0) << rules.at(static_cast<std::size_t>((good - 1) / 2));
    if (!failed) expected.insert("step-" + number(good));
  }
  EXPECT_EQ(names_in(dir()), expected);
  const ProgramResult verified = ckpt({"verify"});
  EXPECT_EQ(verified.exit_code, 0) << verified.describe();
}

TEST_P(CheckpointDiskRefuses, AStateThatCannotBeSavedAtTheEndIsExitCodeThreeAndLeavesNothing) {
  for (const int rank : {0, 1}) {
    const std::string run_dir = "rank" + number(rank);
    const ProgramResult result =
        train({"save=10;rank=" + number(rank) + ";fail=fsync;errno=EDQUOT"}, settings({}), run_dir);
    EXPECT_EQ(result.exit_code, 3) << result.describe();
    for (const std::string& part :
         {"rank " + number(rank) + ": " + dir(run_dir).string(), std::string("error LS-5001"),
          std::string("quota"), std::string("needs"), std::string("free are")}) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
    EXPECT_EQ(names_in(dir(run_dir)), std::set<std::string>{"step-5"});
    const ProgramResult verified = ckpt({"verify"}, run_dir);
    EXPECT_EQ(verified.exit_code, 0) << verified.describe();
  }
}

TEST_P(CheckpointDiskRefuses, TheThirdFailureInARowEndsTheRunWithThree) {
  const ProgramResult result =
      train({"save=6;rank=1;fail=write;errno=EROFS", "save=7;rank=0;fail=write;errno=EROFS",
             "save=8;rank=1;fail=rename;errno=EROFS"},
            settings({"run.steps=10000000", "checkpoint.every=1"}));
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("checkpoint of step 7 not saved, training goes on"));
  EXPECT_THAT(result.err, HasSubstr("read-only"));
  EXPECT_EQ(names_in(dir()).count("step-8"), 0U);
  const ProgramResult verified = ckpt({"verify"});
  EXPECT_EQ(verified.exit_code, 0) << verified.describe();
}

TEST_F(CheckpointDisk, OldCheckpointsThatCannotBeRemovedAreToldAndTheNewOneIsSaved) {
  const int last = changes_of(calls_of_a_run({}, "counted"), 0, 10);
  const ProgramResult result =
      train({"save=10;rank=0;fail=any;at=" + number(last) + ";errno=EROFS"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("checkpoint saved at step 10"));
  EXPECT_THAT(line_with(result.out, "older checkpoints stay"), HasSubstr("read-only"));
  EXPECT_EQ(names_in(dir()), (std::set<std::string>{".step-5.tmp", "step-10"}));
}

/// A file system of 5.05 MB, where a checkpoint of 4 MB is, and another one would have to go.
TEST_F(CheckpointDisk, WithoutRoomForASecondCheckpointThePlainMessageComesBeforeAnyWrite) {
  fs::create_directory(folder_ / "small");
  std::vector<std::string> argv{"unshare", "--mount"};
  if (::geteuid() != 0) argv.insert(argv.end(), {"--user", "--map-root-user"});
  const std::string script =
      "mount -t tmpfs -o size=4932k none \"$1\" || exit 99\n"
      "\"$2\" train \"$3\" --run-dir \"$4\" --nproc-per-node 2 --set checkpoint.dir=\"$1\""
      " --set model.width=76900 --set optimizer.momentum=0 --set run.steps=40\n"
      "echo \"train $?\"; ls -A \"$1\"; \"$2\" ckpt verify \"$1\"; echo \"verify $?\"\n";
  const std::string small = root_ / "small";
  for (const std::string& word :
       {std::string("sh"), std::string("-c"), script, std::string("sh"), small, program("lockstep"),
        folder_ / "run.toml", folder_ / "run"}) {
    argv.push_back(word);
  }
  const ProgramResult result =
      run_program(argv, {.extra_env = {}, .deadline = std::chrono::seconds(60)});
  EXPECT_THAT(result.out, HasSubstr("train 3\nlock\nstep-5\n")) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("verify 0")) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("error LS-5001"));
  for (const std::string& text :
       {line_with(result.out, "checkpoint of step 10 not saved, training goes on"),
        line_with(result.out, "checkpoint of step 15 not saved, training goes on"),
        line_with(result.err, "error LS-5001")}) {
    for (const std::string& part : {std::string("No space left"), small,
                                    std::string("needs 4.00 MB"), std::string("free are 1.0")}) {
      EXPECT_THAT(text, HasSubstr(part));
    }
  }
}

/// As on a network file system: what opens cost is what a save or a resume costs.
class CheckpointOpens : public CheckpointDisk {
 protected:
  /// The front of a run that is done would start no rank.
  void forget_the_end(const std::string& run_dir = "run") const {
    fs::remove(root_ / run_dir / "summary.json");
  }
  [[nodiscard]] int opens_of_ckpt(const std::string& command, const std::string& run_dir) const {
    fs::remove(folder_ / "log");
    const ProgramResult result = ckpt({command}, run_dir);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    return opens_of(read_log(folder_ / "log"), "-");
  }
  /// Of ranks 0 and 1 and the front in a run that saves, then of the same in one that resumes, then
  /// of `ckpt list` and `ckpt inspect`.
  [[nodiscard]] std::vector<int> opens(const std::string& layers) const {
    const std::string run_dir = "layers" + layers;
    std::vector<int> counted;
    for (int run = 0; run < 2; ++run) {
      const std::vector<Call> calls =
          calls_of_a_run({"model.layers=" + layers, "run.steps=5"}, run_dir);
      for (const char* rank : {"0", "1", "-"}) counted.push_back(opens_of(calls, rank));
      forget_the_end(run_dir);
    }
    for (const char* command : {"list", "inspect"}) {
      counted.push_back(opens_of_ckpt(command, run_dir));
    }
    return counted;
  }
};

TEST_F(CheckpointOpens, AreAHandfulInASaveAndAResumeHoweverManyTensorsThereAre) {
  const std::vector<int> few = opens("1");
  EXPECT_EQ(opens("12"), few);
  const std::vector<int> most{16, 6, 4, 12, 8, 4, 8, 12};
  for (std::size_t i = 0; i < most.size(); ++i) EXPECT_LE(few.at(i), most[i]) << i;
}

TEST_F(CheckpointOpens, Of200MillisecondsSlowASaveAndAResumeButBreakNothing) {
  for (const bool resumes : {false, true}) {
    const ProgramResult result = train({"open_delay_ms=200"}, {"run.steps=5"});
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.out, HasSubstr(resumes ? "/step-5 (step 5)" : "checkpoint saved at step 5"));
    forget_the_end();
  }
}

/// Kills and what is left of them, each in a run directory of its own.
class CheckpointCrash : public CheckpointDisk {
 protected:
  /// Kills `rank` before its change number `at` in the save of step 10.
  [[nodiscard]] ProgramResult kill(int rank, int at, const std::string& run_dir) const {
    return train({"save=10;rank=" + number(rank) + ";kill_at=" + number(at)}, {}, run_dir);
  }
};

struct CrashPoint {
  int rank = 0;
  int at = 0;
};

/// All of them takes minutes: every so many, unless LOCKSTEP_TEST_ALL_POINTS is set.
std::vector<CrashPoint> crash_points(const std::vector<Call>& calls) {
  std::vector<CrashPoint> all;
  for (const int rank : {0, 1}) {
    for (int at = 1; at <= changes_of(calls, rank, 10); ++at) all.push_back({rank, at});
  }
  constexpr std::size_t kMost = 16;
  const std::size_t stride =
      std::getenv("LOCKSTEP_TEST_ALL_POINTS") != nullptr ? 1 : (all.size() + kMost - 1) / kMost;
  std::vector<CrashPoint> some;
  for (std::size_t i = stride / 2; i < all.size(); i += stride) some.push_back(all[i]);
  return some;
}

TEST_F(CheckpointCrash, AKillAtAnyWriteOfASaveLeavesTheOldOrTheNewStepToAllRanksAndTheSameEnd) {
  const std::vector<CrashPoint> points = crash_points(calls_of_a_run({}, "whole"));
  ASSERT_GT(points.size(), 10U);
  int from_old = 0;
  int from_new = 0;
  for (const CrashPoint& point : points) {
    const std::string run_dir = number(point.rank) + "-" + number(point.at);
    SCOPED_TRACE("rank " + number(point.rank) + " killed before change " + number(point.at));
    const ProgramResult killed = kill(point.rank, point.at, run_dir);
    EXPECT_EQ(killed.exit_code, 1) << killed.describe();
    const ProgramResult verified = ckpt({"verify"}, run_dir);
    EXPECT_EQ(verified.exit_code, 0) << verified.describe();
    const ProgramResult resumed = train({}, {}, run_dir);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.describe();
    const std::string from = line_with(resumed.out, "going on from");
    from_old += static_cast<int>(from.find("/step-5 (step 5)") != from.npos);
    from_new += static_cast<int>(from.find("/step-10 (step 10)") != from.npos);
    EXPECT_EQ(state_of(run_dir), state_of("whole")) << resumed.describe();
    EXPECT_EQ(names_in(dir(run_dir)).count("step-10"), 1U);
    fs::remove_all(root_ / run_dir);
  }
  EXPECT_EQ(from_old + from_new, static_cast<int>(points.size()));
  EXPECT_GT(from_old, 5);
  EXPECT_GT(from_new, 0);
}

TEST_F(CheckpointCrash, ARankKilledInMidSaveLeavesAnIncompleteStepAndAllRanksResumeTheOneBefore) {
  const ProgramResult whole = train({}, {}, "whole");
  const int changes = changes_of(read_log(folder_ / "log"), 1, 10);
  const ProgramResult killed = kill(1, changes / 2, "run");
  EXPECT_EQ(killed.exit_code, 1) << killed.describe();
  EXPECT_THAT(killed.err, HasSubstr("rank 1 was killed by SIGKILL"));
  const json rows = json::parse(ckpt({"list", "--json"}).out, nullptr, false).at("checkpoints");
  ASSERT_EQ(rows.size(), 2U) << rows;
  EXPECT_EQ(rows[0].at("step"), 10);
  EXPECT_EQ(rows[0].at("complete"), false);
  EXPECT_EQ(rows[1].at("step"), 5);
  EXPECT_EQ(rows[1].at("newest"), true);
  EXPECT_THAT(ckpt({"list"}).out, HasSubstr("incomplete: being written, or left by a save"));
  fs::remove(folder_ / "log");
  const ProgramResult resumed = train({});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.describe();
  EXPECT_LT(resumed.seconds, std::max(10.0, 4 * whole.seconds));  // on a machine that is busy
  EXPECT_THAT(resumed.out, HasSubstr("/step-5 (step 5)"));
  std::set<std::string> loading;  // ranks
  for (const Call& call : read_log(folder_ / "log")) {
    if (call.path == dir() / "step-5/manifest.json") loading.insert(call.rank);
  }
  EXPECT_THAT(loading, testing::IsSupersetOf({"0", "1"}));
  EXPECT_EQ(state_of(), state_of("whole"));
  EXPECT_EQ(names_in(dir()), std::set<std::string>{"step-10"});
}

}  // namespace
}  // namespace lockstep::test
