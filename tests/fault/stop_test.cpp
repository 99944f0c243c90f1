// Stopping a training run at any moment, and ranks that die or stand still: it ends in seconds,
// says what was saved and how to go on.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/socket.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/lone_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

const TinyRun kRun{.run = "name = \"stop\"\nsteps = 10000000\n",
                   .more = "[optimizer]\nname = \"sgd\"\nlr = 0.01\n"};

// A rank that only sits in a wait was given twenty seconds before; the machine may be slow.
constexpr double kSoon_s = 15;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Stop : public TinyRunTest {
 protected:
  Stop() : TinyRunTest(kRun) {}

  std::unique_ptr<RunningProgram> start(const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> argv = command({"--nproc-per-node", "2"});
    const auto words = set_words(sets);
    argv.insert(argv.end(), words.begin(), words.end());
    return std::make_unique<RunningProgram>(argv);
  }
  /// The ranks are about to train: a signal is remembered.
  [[nodiscard]] bool in_loop() const {
    return eventually([&] { return fs::exists(folder_ / "run/plan.json"); });
  }
  /// Sends the signal and waits. \returns what the front left, its time counted from the signal.
  static ProgramResult stop(RunningProgram& front, int signal = SIGTERM) {
    const auto begin = std::chrono::steady_clock::now();
    front.send_signal(signal);
    ProgramResult result = front.wait();
    const auto end = std::chrono::steady_clock::now();
    result.seconds = std::chrono::duration<double>(end - begin).count();
    return result;
  }
};

TEST_F(Stop, ARankKilledDuringTheStartEndsTheJobInSeconds) {
  for (const int ms : {0, 100, 200, 300, 400, 500}) {  // loading libraries, joining, connecting
    const auto front = start();
    ASSERT_TRUE(eventually([&] { return find_rank(front->pid(), 1) > 0; }));
    const int rank = find_rank(front->pid(), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::kill(rank, SIGKILL);
    const auto result = front->wait();
    EXPECT_EQ(result.exit_code, 1) << ms << result.describe();
    EXPECT_TRUE(has(result.err, "rank 1 was killed by SIGKILL")) << ms << result.describe();
    EXPECT_LT(result.seconds, kSoon_s) << ms;
  }
}

TEST_F(Stop, DuringDataLoadingItEndsAtOnceWithNothingSaved) {
  const std::string flag = folder_ / "loading";
  write_file(folder_ / "text.sh", "touch " + flag + "\nexec sleep 1000\n");
  write_file(folder_ / "run.toml",
             "[run]\nsteps = 5\n[model]\nfamily = \"gpt\"\nlayers = 1\nwidth = 16\nheads = 1\n"
             "[data]\nformat = \"text\"\nseq_len = 8\ntrain = \"!sh " +
                 (folder_ / "text.sh") + "\"\n[batch]\nmicro_batch = 2\n");
  const auto front = start();
  ASSERT_TRUE(eventually([&] { return fs::exists(flag); })) << front->err_so_far();
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "nothing was saved: no step had been finished")) << result.describe();
  EXPECT_LT(result.seconds, kSoon_s);
}

TEST_F(Stop, WhileTheMicroBatchIsBeingFoundItEndsOnAllRanksWithNothingSaved) {
  const std::vector<std::string> seconds_a_pass{"batch.micro_batch=auto",
                                                "batch.global_batch=16384", "model.width=1024",
                                                "model.layers=4", "data.train_samples=20000"};
  const auto is_in_a_pass = [&] {
    const ProgramResult watched =
        run_program({program("lockstep"), "doctor", "watch", folder_ / "run", "--once", "--json"});
    return has(watched.out, "\"phase\":\"forward\"") || has(watched.out, "\"phase\":\"backward\"");
  };
  const auto front = start(seconds_a_pass);
  ASSERT_TRUE(eventually(is_in_a_pass)) << front->err_so_far();
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "nothing was saved: no step had been finished")) << result.describe();
  EXPECT_FALSE(has(result.out, " probes (")) << result.describe();
  EXPECT_FALSE(fs::exists(folder_ / ".lockstep")) << "nothing was found, nothing is remembered";
  EXPECT_LT(result.seconds, kSoon_s);
  fs::remove_all(folder_ / "run");

  std::vector<std::string> argv = command();
  const auto words = set_words(seconds_a_pass);
  argv.insert(argv.end(), words.begin(), words.end());
  const LoneRanks ranks(2, argv);
  ASSERT_TRUE(eventually(is_in_a_pass)) << ranks[0].err_so_far();
  ranks[1].send_signal(SIGTERM);  // one hears of it, all leave in order
  for (const std::size_t rank : {0U, 1U}) {
    const ProgramResult end = ranks[rank].wait();
    EXPECT_EQ(end.exit_code, 1) << end.describe();
    EXPECT_TRUE(has(end.err, "LS-7057")) << end.describe();
    EXPECT_TRUE(has(end.err, "nothing was saved")) << end.describe();
  }
}

TEST_F(Stop, AnEvaluationIsAbandonedAndTheStateSaved) {
  const auto front = start({"run.eval_every=3", "data.eval_samples=2000000000"});
  ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front->err_so_far();
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_TRUE(has(result.err, "with the state saved at step 3;")) << result.describe();
  EXPECT_TRUE(has(result.err, "--run-dir")) << result.describe();
  EXPECT_LT(result.seconds, kSoon_s);
}

TEST_F(Stop, AStepOfManyMicroBatchesIsAbandonedAndTheStateOfBeforeSaved) {
  const std::vector<std::string> minutes_a_step{
      "model.width=2048", "model.layers=3", "batch.micro_batch=256", "data.train_samples=600000",
      "batch.global_batch=512000"};
  const auto front = start(minutes_a_step);
  ASSERT_TRUE(in_loop()) << front->err_so_far();
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_TRUE(has(result.err, "with the state saved at step 0")) << result.describe();
  EXPECT_LT(result.seconds, kSoon_s);
  const auto again = start(minutes_a_step);
  EXPECT_TRUE(eventually([&] { return has(again->out_so_far(), "going on from"); }))
      << again->err_so_far();
}

TEST_F(Stop, BeforeAFurtherStepTheStateIsThatOfTheCheckpointSoItIsSeventyFive) {
  {
    const auto front = start();
    ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front->err_so_far();
    EXPECT_EQ(stop(*front).exit_code, 75);
  }
  const auto front = start();
  ASSERT_TRUE(eventually([&] { return find_rank(front->pid(), 1) > 0; }));
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_TRUE(has(result.err, "--run-dir")) << result.describe();
}

TEST_F(Stop, ARankThatWasStoppedIsFoundNamedAndTheWayOnTold) {
  const auto front = start({"checkpoint.every=5"});
  ASSERT_TRUE(eventually([&] { return has_done_step(12); })) << front->err_so_far();
  const int rank = find_rank(front->pid(), 1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGSTOP);
  const auto result = front->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "rank 1 was found stopped (state T")) << result.describe();
  EXPECT_TRUE(has(result.err, "pid " + std::to_string(rank))) << result.describe();
  EXPECT_TRUE(has(result.err, " is there; ")) << result.describe();
  EXPECT_TRUE(has(result.err, "--run-dir")) << result.describe();
}

TEST_F(Stop, ARankThatStandsStillWhenTheStopComesIsNamed) {
  const auto front = start();
  ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front->err_so_far();
  const int rank = find_rank(front->pid(), 1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGSTOP);
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "rank 1 was found stopped (state T")) << result.describe();
}

TEST_F(Stop, AStoppedGuardianDoesNotHoldUpTheEnd) {
  const auto front = start();
  ASSERT_TRUE(eventually([&] { return has_done_step(3); })) << front->err_so_far();
  const int guardian = find_child(front->pid(), "comm", "lockstep-guard");
  ASSERT_GT(guardian, 0);
  ::kill(guardian, SIGSTOP);
  const auto result = stop(*front);
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_LT(result.seconds, kSoon_s);
  EXPECT_TRUE(is_gone(guardian));
}

TEST_F(Stop, ASecondSignalSaysThatTheStateIsLostAndWhatIsLeft) {
  // Steps long enough that none ends, and none is saved, between the two signals.
  const auto front = start({"model.width=1024", "model.layers=3", "batch.micro_batch=512",
                            "data.train_samples=20000", "checkpoint.every=5"});
  ASSERT_TRUE(eventually([&] { return has_done_step(6); })) << front->err_so_far();
  front->send_signal(SIGTERM);
  const auto result = stop(*front, SIGINT);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "was not saved: a second signal ended the ranks at once"))
      << result.describe();
  EXPECT_TRUE(has(result.err, "checkpoint step-5 is there; ")) << result.describe();
}

TEST_F(Stop, ABenchmarkSaysThatItWasStoppedOnRequest) {
  RunningProgram bench({program("lockstep"), "bench", "scaling", folder_ / "run.toml", "--ranks",
                        "1", "--steps", "1000000", "--out", folder_ / "bench"});
  ASSERT_TRUE(eventually([&] {
    return has(read_file(folder_ / "bench/ranks-1/events.jsonl"), "\"step\":3,");
  })) << bench.err_so_far();
  const auto result = stop(bench);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_TRUE(has(result.err, "was stopped on request")) << result.describe();
  EXPECT_LT(result.seconds, kSoon_s);
}

TEST_F(Stop, ARankThatWaitsForOthersSaysForWhomAndEndsAtTheFirstSignal) {
  int port = 0;
  {
    const Listener free = listen_on("127.0.0.1", 0);
    port = free.port;
  }
  const auto start_rank = [&](const std::string& rank, int master_port) {
    ProgramOptions options;
    options.extra_env = {"RANK=" + rank,          "LOCAL_RANK=" + rank,
                         "WORLD_SIZE=3",          "LOCAL_WORLD_SIZE=3",
                         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(master_port)};
    return std::make_unique<RunningProgram>(
        std::vector<std::string>{program("lockstep"), "train", folder_ / "run.toml", "--run-dir",
                                 folder_ / "run"},
        options);
  };
  const auto first = start_rank("0", port);
  const auto stray = start_rank("1", 1);  // nobody listens there
  EXPECT_TRUE(eventually([&] {
    return has(first->err_so_far(), "waiting for ranks 1, 2 to join");
  })) << first->err_so_far();
  EXPECT_TRUE(eventually([&] {
    return has(stray->err_so_far(), "the store at 127.0.0.1:1 does not answer");
  })) << stray->err_so_far();
  for (const auto& rank : {first.get(), stray.get()}) {
    const auto result = stop(*rank);
    EXPECT_EQ(result.exit_code, 1) << result.describe();
    EXPECT_TRUE(has(result.err, "stopped on request; nothing was saved")) << result.describe();
    EXPECT_LT(result.seconds, kSoon_s);
  }
}

}  // namespace
}  // namespace lockstep::test
