#include "lockstep/worker/bench_checkpoint.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/bench/direct_write.h"
#include "lockstep/checkpoint/bench/request.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/gather_texts.h"
#include "lockstep/comm/world.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using checkpoint::BenchPart;

constexpr std::uint64_t kMostRequestBytes = 1U << 16;
constexpr std::int64_t kTensors = 16;
constexpr std::int64_t kColumns = 1024;
constexpr std::int64_t kElementBytes = 4;
constexpr std::int64_t kAsyncStep = 1000;  // above any round
constexpr int kAsyncSaves = 3;             // the first two meet memory that was never touched

/// Rows of sixteen fp32 tensors, those of this rank.
engine::TrainState make_state(std::int64_t bytes, int rank, int ranks) {
  const std::int64_t rows =
      std::max<std::int64_t>(ranks, bytes / (kTensors * kColumns * kElementBytes));
  const std::int64_t first = rows * rank / ranks;
  const std::int64_t own = rows * (rank + 1) / ranks - first;
  engine::TrainState state;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    engine::StateEntry entry;
    entry.name = "w" + std::to_string(i);
    entry.tensor = at::randn({own, kColumns});
    entry.global_shape = {rows, kColumns};
    entry.offset = {first, 0};
    state.entries.push_back(std::move(entry));
  }
  return state;
}

std::int64_t bytes_of(const engine::TrainState& state) {
  std::int64_t bytes = 0;
  for (const engine::StateEntry& entry : state.entries) {
    bytes += static_cast<std::int64_t>(entry.tensor.nbytes());
  }
  return bytes;
}

/// Members are in the order they depend on each other.
class CheckpointBench {
 public:
  CheckpointBench(checkpoint::BenchRequest request, const config::RankEnv& env)
      : request_(std::move(request)),
        env_(env),
        world_(comm::join_world(env, nullptr)),
        state_(make_state(request_.bytes, world_->rank(), world_->size())) {}

  void run() {
    for (int i = 0; i < request_.rounds; ++i) round(request_.first_round + i);
    async(request_.first_round + request_.rounds - 1);
  }

 private:
  void round(int number) {
    const fs::path dir(request_.dir);
    const fs::path raw = dir / ("raw-" + std::to_string(world_->rank()));
    time(BenchPart::disk_write, number,
         [&] { (void)checkpoint::direct_write_s(raw, bytes_of(state_)); });
    state_.step = number;
    const fs::path saved = step_folder(number);
    time(BenchPart::save, number, [&] { (void)checkpoint::save(state_, dir, {}, *world_, 0); });
    time(BenchPart::load, number, [&] { (void)checkpoint::load(state_, saved, *world_); });
    remove(saved);
  }

  /// The last of several: by then the saver has its memory, as in a training.
  void async(int number) {
    const std::unique_ptr<comm::Group> behind = comm::join_beside_world(env_, "checkpoints");
    checkpoint::AsyncSaver saver(*behind, request_.dir, 1);
    for (int i = 1; i <= kAsyncSaves; ++i) {
      state_.step = kAsyncStep + i;
      world_->barrier();
      const Stopwatch watch;
      check(saver.save(state_, {}, *world_));
      // Without a meeting of the ranks behind it: the writers have the cores by now.
      const double own_s = watch.elapsed_s();
      check(saver.finish());
      world_->barrier();
      if (i < kAsyncSaves) continue;
      const double all_s = watch.elapsed_s();
      report({BenchPart::async_stall, number, slowest(own_s)});
      report({BenchPart::async_save, number, all_s});
      remove(step_folder(state_.step));
    }
  }

  [[nodiscard]] fs::path step_folder(std::int64_t step) const {
    return fs::path(request_.dir) / ("step-" + std::to_string(step));
  }

  void remove(const fs::path& folder) const {
    if (world_->rank() == 0) fs::remove_all(folder);
    world_->barrier();
  }

  /// The largest of all ranks' numbers.
  [[nodiscard]] double slowest(double seconds) const {
    double most = 0;
    for (const std::string& text : checkpoint::gather_texts(*world_, std::to_string(seconds))) {
      most = std::max(most, std::stod(text));
    }
    return most;
  }

  static void check(const std::vector<checkpoint::SaveOutcome>& outcomes) {
    for (const checkpoint::SaveOutcome& outcome : outcomes) {
      if (outcome.fault) throw EnvironmentFault(*outcome.fault);
    }
  }

  void time(BenchPart part, int round, const std::function<void()>& work) {
    world_->barrier();
    const Stopwatch watch;
    work();
    world_->barrier();
    report({part, round, watch.elapsed_s()});
  }

  void report(const checkpoint::BenchSample& sample) const {
    if (env_.rank != 0) return;
    const int fd = env_.report_fd >= 0 ? env_.report_fd : STDOUT_FILENO;
    ::dprintf(fd, "%s\n", checkpoint::to_json_text(sample).c_str());
  }

  checkpoint::BenchRequest request_;
  config::RankEnv env_;
  std::unique_ptr<comm::Group> world_;
  engine::TrainState state_;
};

}  // namespace

Exit run_bench_checkpoint(const RankArgs& args, const config::RankEnv& env) {
  at::set_num_threads(1);
  CheckpointBench(
      checkpoint::bench_request_from(checkpoint::read_text_file(args.job_file, kMostRequestBytes)),
      env)
      .run();
  return Exit::ok;
}

}  // namespace lockstep::worker
