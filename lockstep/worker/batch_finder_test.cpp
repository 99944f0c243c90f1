#include "lockstep/worker/batch_finder.h"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/engine/train_state.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/memory/category.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "lockstep/planner/planner.h"
#include "lockstep/rundir/found_batch.h"
#include "tests/support/rank_processes.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::worker {
namespace {

/// Small images; more than `most` at once find no memory, where that is set.
class Images : public data::Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] bool counts_tokens() const override { return false; }
  [[nodiscard]] data::Batch collate(std::span<const std::int64_t> ids,
                                    std::uint64_t /*augment_key*/) const override {
    const auto n = static_cast<std::int64_t>(ids.size());
    if (most > 0 && n > most) throw std::bad_alloc();
    at::Tensor input = at::empty({n, 1, 8, 8});
    for (std::int64_t i = 0; i < n; ++i) {
      input[i].fill_(static_cast<double>(ids[static_cast<std::size_t>(i)]) / 100);
    }
    return {input.contiguous(at::MemoryFormat::ChannelsLast), at::zeros({n}, at::kLong), n, n};
  }

  std::int64_t most = 0;
};

/// A network with batch statistics and a search for the micro-batch of its 32 samples a step.
struct SearchedRun {
  explicit SearchedRun(comm::Group& group, const std::string& memory_file)
      : sampler(images.size(), 1, 32) {
    job.config.model.family = config::Family::resnet;
    job.config.model.image_size = 8;
    job.config.batch.global_batch = 32;
    job.config.batch.finds_micro_batch = true;
    Host host;
    host.memory_bytes = 1'000'000'000'000;
    job.plan = planner::make_plan(job.config, host, group.size(), 0);
    rundir::settle_micro_batch(job, host, 0);
    job.search->memory_file = memory_file;
    env.local_world_size = group.size();
    session = parallel::compose({job.config, job.plan, Mesh(job.plan.degree), {group, group}},
                                model::make_model(job.config.model, 0, 1), parallel::strategies());
  }

  [[nodiscard]] std::string state_hash() const {
    engine::TrainState state;
    for (const parallel::SessionTensor& t : session->state()) {
      engine::StateEntry entry;
      entry.name = t.name;
      entry.tensor = t.tensor;
      entry.global_shape = t.tensor.sizes().vec();
      entry.offset.assign(entry.global_shape.size(), 0);
      state.entries.push_back(std::move(entry));
    }
    return engine::state_sha256(state);
  }

  Images images;
  planner::Job job;
  config::RankEnv env;
  data::Sampler sampler;
  std::unique_ptr<parallel::Session> session;
};

/// A sink that nobody reads, on the printing rank.
std::unique_ptr<ReportSink> sink_of(const comm::Group& group) {
  if (group.rank() != 0) return nullptr;
  return std::make_unique<ReportSink>(::open("/dev/null", O_WRONLY | O_CLOEXEC), false, false);
}

bool never_stops() { return false; }

TEST(BatchFinder, LeavesTheStateAloneAndTakesOneOfTheCuts) {
  const test::ScratchFolder scratch;
  test::run_ranks(2, [&](comm::Group& group) {
    memory::install();
    SearchedRun run(group, scratch.file("memory/found.json"));
    const auto sink = sink_of(group);
    BatchFinder finder(run.job, group, run.env, sink.get());
    const std::string before = run.state_hash();
    EXPECT_TRUE(finder.find(*run.session, run.images, run.sampler, never_stops));
    EXPECT_EQ(run.state_hash(), before);
    const config::BatchShape& batch = run.job.plan.batch;
    EXPECT_EQ(batch.global_batch, 32);
    EXPECT_EQ(batch.micro_batch * batch.accumulation, 16);
    for (const config::BatchShape& finer : finder.finer()) {
      EXPECT_LT(finer.micro_batch, batch.micro_batch);
    }
    at::Tensor most = at::full({1}, batch.micro_batch, at::kLong);
    group.all_reduce(most, comm::ReduceOp::max)->wait();
    EXPECT_EQ(most.item<std::int64_t>(), batch.micro_batch) << "ranks do not agree";
    EXPECT_TRUE(group.rank() != 0 || std::filesystem::exists(run.job.search->memory_file));
  });
}

TEST(BatchFinder, TrainsAsIfTheMicroBatchHadBeenGiven) {
  const test::ScratchFolder scratch;
  const auto train = [](SearchedRun& run, comm::Group& group) {
    data::Loader loader(run.images, run.sampler,
                        engine::leaves_of_rank(run.job.plan.batch, group.rank()), {1, 0, 1});
    run.job.config.run.steps = 3;
    engine::Trainer trainer(
        {run.job.config, run.job.plan, *run.session, group, run.sampler, loader});
    EXPECT_EQ(trainer.run(), engine::Outcome::done);
    return engine::state_sha256(trainer.state());
  };
  const auto group = comm::make_gloo_group({});
  memory::install();
  SearchedRun searched(*group, scratch.file("found.json"));
  BatchFinder finder(searched.job, *group, searched.env, nullptr);
  EXPECT_TRUE(finder.find(*searched.session, searched.images, searched.sampler, never_stops));
  SearchedRun given(*group, "");
  given.job.plan = searched.job.plan;
  given.session->set_leaves(given.job.plan.batch.leaves);
  EXPECT_EQ(train(searched, *group), train(given, *group));
}

TEST(BatchFinder, PassesOverCutsForWhichOneRankHasNoMemory) {
  const test::ScratchFolder scratch;
  test::run_ranks(2, [&](comm::Group& group) {
    memory::install();
    SearchedRun run(group, scratch.file("found.json"));
    if (group.rank() == 1) run.images.most = 5;
    const std::string before = run.state_hash();
    BatchFinder finder(run.job, group, run.env, nullptr);
    EXPECT_TRUE(finder.find(*run.session, run.images, run.sampler, never_stops));
    EXPECT_LE(run.job.plan.batch.micro_batch, 4);
    EXPECT_EQ(run.state_hash(), before);
  });
}

TEST(BatchFinder, EndsOnAllRanksWhenOneIsToStopAndRemembersNothing) {
  const test::ScratchFolder scratch;
  test::run_ranks(2, [&](comm::Group& group) {
    SearchedRun run(group, scratch.file("found.json"));
    const auto sink = sink_of(group);
    BatchFinder finder(run.job, group, run.env, sink.get());
    int asked = 0;
    const auto stops = [&] { return group.rank() == 1 && ++asked > 2; };
    EXPECT_FALSE(finder.find(*run.session, run.images, run.sampler, stops));
    EXPECT_FALSE(std::filesystem::exists(run.job.search->memory_file));
  });
}

TEST(BatchFinder, FollowsAStepThatWasCutFinerAndRemembersIt) {
  const test::ScratchFolder scratch;
  const auto group = comm::make_gloo_group({});
  SearchedRun run(*group, scratch.file("memory/found.json"));
  run.job.run_dir = scratch.path();
  const auto sink = sink_of(*group);
  BatchFinder finder(run.job, *group, run.env, sink.get());
  const config::BatchShape next = finder.finer().front();
  finder.on_finer_cut({7, 0, next});
  EXPECT_EQ(run.job.plan.batch.micro_batch, next.micro_batch);
  EXPECT_LT(finder.finer().front().micro_batch, next.micro_batch);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "config.json"));
  EXPECT_TRUE(std::filesystem::exists(run.job.search->memory_file));
}

}  // namespace
}  // namespace lockstep::worker
