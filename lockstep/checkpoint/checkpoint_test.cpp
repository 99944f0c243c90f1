#include "lockstep/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/format/step_reader.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using engine::StateEntry;
using engine::StateKind;
using engine::TrainState;
using test::problem_of;
using test::ScratchFolder;

StateEntry entry(const std::string& name, const at::Tensor& tensor,
                 StateKind kind = StateKind::parameter) {
  return {name,
          kind,
          tensor,
          tensor.sizes().vec(),
          std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()), 0),
          {}};
}

/// One entry of each sort: channels-last, a slice of a larger buffer, bf16, int64, bool, empty.
TrainState filled(std::int64_t seed) {
  const at::Tensor base =
      at::arange(2 * 3 * 4 * 4, at::kFloat).view({2, 3, 4, 4}) + static_cast<double>(seed);
  TrainState state;
  state.entries.push_back(entry("conv.weight", base.contiguous(at::MemoryFormat::ChannelsLast)));
  const at::Tensor flat = at::arange(64, at::kFloat) * static_cast<double>(seed);
  state.entries.push_back(entry("fc.weight", flat.slice(0, 8, 40).view({8, 4}).t()));
  state.entries.push_back(entry("fc.bias", flat.slice(0, 3, 7)));
  state.entries.push_back(entry("half", base.to(at::kBFloat16)));
  state.entries.push_back(entry("seen", at::full({}, seed, at::kLong), StateKind::buffer));
  state.entries.push_back(entry("mask", base > 5, StateKind::buffer));
  state.entries.push_back(entry("none", at::empty({0, 3}), StateKind::buffer));
  state.entries.push_back(entry("fc.bias/moment1", flat.slice(0, 1, 5), StateKind::optimizer));
  state.entries[1].aliases = {"head.weight"};
  state.step = seed;
  state.position = {seed + 1, seed + 2};
  state.skipped_steps = seed + 3;
  state.loss_scale = {4096.0, seed + 4};
  return state;
}

std::unique_ptr<comm::Group> alone() { return comm::make_gloo_group({}); }

fs::path save_alone(const TrainState& state, const fs::path& dir, int keep = 0) {
  const auto group = alone();
  return save(state, dir, {"hash", R"({"run":{"seed":3}})", 3, "data=1", {{"lockstep", "0"}}},
              *group, keep);
}

Manifest load_alone(TrainState& state, const fs::path& step_dir) {
  const auto group = alone();
  return load(state, step_dir, *group);
}

/// One scratch folder, made on rank 0 and known to all ranks.
class SharedFolder {
 public:
  explicit SharedFolder(comm::Group& group) : group_(group) {
    if (group.rank() == 0) folder_.emplace();
    path_ = comm::broadcast_text(group, folder_ ? folder_->path().string() : "");
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() { group_.barrier(); }  // no rank may still be reading
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  comm::Group& group_;
  std::optional<ScratchFolder> folder_;
  fs::path path_;
};

TEST(Checkpoint, EveryTypeAndStrideComesBackBitForBit) {
  const ScratchFolder scratch;
  const TrainState saved = filled(5);
  const fs::path step = save_alone(saved, scratch.path() / "checkpoints");
  EXPECT_EQ(step, scratch.path() / "checkpoints" / "step-5");
  TrainState loaded = filled(11);
  const auto* memory = loaded.entries[0].tensor.const_data_ptr();
  (void)load_alone(loaded, step);
  EXPECT_EQ(state_sha256(loaded), state_sha256(saved));
  EXPECT_EQ(loaded.entries[0].tensor.const_data_ptr(), memory);  // live tensors stay where they are
  EXPECT_EQ(loaded.entries[0].tensor.strides(), saved.entries[0].tensor.strides());
  EXPECT_EQ(loaded.position, saved.position);
  EXPECT_EQ(loaded.skipped_steps, 8);
  EXPECT_EQ(loaded.loss_scale, (optim::LossScaleState{4096.0, 9}));
}

TEST(Checkpoint, TheStridesOfWhoSavedDoNotMatter) {
  const ScratchFolder scratch;
  const TrainState saved = filled(5);
  const fs::path step = save_alone(saved, scratch.path());
  TrainState plain = filled(6);
  for (StateEntry& e : plain.entries) e.tensor = at::zeros_like(e.tensor.contiguous());
  (void)load_alone(plain, step);
  EXPECT_EQ(state_sha256(plain), state_sha256(saved));
}

TEST(Checkpoint, TheManifestTellsAboutTheRun) {
  const ScratchFolder scratch;
  const fs::path step = save_alone(filled(5), scratch.path());
  TrainState state = filled(6);
  const Manifest manifest = load_alone(state, step);
  EXPECT_EQ(manifest.config_hash, "hash");
  EXPECT_EQ(manifest.config_json, R"({"run":{"seed":3}})");
  EXPECT_EQ(manifest.seed, 3);
  EXPECT_EQ(manifest.world_size, 1);
  EXPECT_EQ(manifest.versions.count("libtorch"), 1U);
  EXPECT_EQ(manifest.file_bytes.size(), 2U);  // optimizer state is apart
  EXPECT_TRUE(verify_step(step).empty());
}

TEST(Checkpoint, ATiedTensorIsFoundByItsOtherName) {
  const ScratchFolder scratch;
  const fs::path step = save_alone(filled(5), scratch.path());
  TrainState state = filled(6);
  state.entries[1].name = "head.weight";
  (void)load_alone(state, step);
  EXPECT_TRUE(state.entries[1].tensor.equal(filled(5).entries[1].tensor));
}

TEST(Checkpoint, AnotherModelIsRefusedNamingEveryTensorThatDiffers) {
  const ScratchFolder scratch;
  const fs::path step = save_alone(filled(5), scratch.path());
  TrainState other = filled(6);
  other.entries[2] = entry("fc.bias", at::zeros({9}));
  other.entries[3] = entry("half", at::zeros({2, 3, 4, 4}));
  other.entries[4].name = "unseen";
  const std::string before = state_sha256(other);
  const Problem problem = problem_of<BadData>([&] { (void)load_alone(other, step); });
  EXPECT_EQ(problem.code, "LS-5006");
  for (const char* part : {"fc.bias is F32 [4], the run has F32 [9]", "half is BF16",
                           "unseen is missing", "seen has no place"}) {
    EXPECT_NE(problem.what.find(part), std::string::npos) << part << "\n" << problem.what;
  }
  EXPECT_EQ(state_sha256(other), before);  // nothing was written
}

TEST(Checkpoint, AFlippedBitIsFoundOnLoadAndTheOlderOneStillLoads) {
  const ScratchFolder scratch;
  (void)save_alone(filled(5), scratch.path());
  const fs::path step = save_alone(filled(6), scratch.path());
  std::fstream file(step / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-100, std::ios::end);
  file.put('\x7e');
  file.close();
  TrainState state = filled(7);
  const Problem problem = problem_of<BadData>([&] { (void)load_alone(state, step); });
  EXPECT_EQ(problem.code, "LS-5005");
  EXPECT_NE(problem.where.find("model.safetensors"), std::string::npos);
  (void)load_alone(state, complete_steps(scratch.path()).at(1).path);
  EXPECT_EQ(state_sha256(state), state_sha256(filled(5)));
}

TEST(Checkpoint, ATruncatedFileIsDamage) {
  const ScratchFolder scratch;
  const fs::path step = save_alone(filled(5), scratch.path());
  fs::resize_file(step / "model.safetensors", fs::file_size(step / "model.safetensors") - 1);
  TrainState state = filled(6);
  EXPECT_EQ(problem_of<BadData>([&] { (void)load_alone(state, step); }).code, "LS-5004");
}

TEST(Checkpoint, AFolderWithoutManifestIsNoCheckpoint) {
  const ScratchFolder scratch;
  TrainState state = filled(5);
  const fs::path step = save_alone(state, scratch.path());
  fs::remove(step / kManifestName);
  EXPECT_EQ(newest_complete(scratch.path()), std::nullopt);
  EXPECT_EQ(problem_of<BadData>([&] { (void)load_alone(state, step); }).code, "LS-5003");
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  const ScratchFolder scratch;
  for (std::int64_t step = 1; step <= 4; ++step) (void)save_alone(filled(step), scratch.path(), 2);
  const auto steps = complete_steps(scratch.path());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].step, 4);
  EXPECT_EQ(steps[1].step, 3);
}

TEST(Checkpoint, WithoutRoomTheMessageHasPathNeedAndFree) {
  const ScratchFolder scratch;
  (void)save_alone(filled(5), scratch.path());
  TrainState huge = filled(6);
  huge.entries[0] = entry("conv.weight", at::zeros({1}).expand({std::int64_t{1} << 50}));
  const Problem problem =
      problem_of<EnvironmentFault>([&] { (void)save_alone(huge, scratch.path(), 1); });
  EXPECT_EQ(problem.code, "LS-5001");
  EXPECT_NE(problem.where.find(scratch.path().string()), std::string::npos);
  EXPECT_NE(problem.what.find("4.50 PB"), std::string::npos) << problem.what;
  EXPECT_NE(problem.what.find("free are"), std::string::npos);
  ASSERT_EQ(complete_steps(scratch.path()).size(), 1U);  // the older one is untouched
  EXPECT_TRUE(verify_step(*newest_complete(scratch.path())).empty());
}

TEST(Checkpoint, AFolderThatCannotBeMadeIsAFaultOfTheMachine) {
  const ScratchFolder scratch;
  const std::string in_the_way = scratch.write("file", "");
  const Problem problem =
      problem_of<EnvironmentFault>([&] { (void)save_alone(filled(5), in_the_way); });
  EXPECT_EQ(problem.code, "LS-5002");
  EXPECT_NE(problem.what.find("needs"), std::string::npos);
}

TEST(Checkpoint, AShardOrADoubleNameIsABug) {
  const ScratchFolder scratch;
  TrainState state = filled(5);
  state.entries[2].global_shape = {8};
  EXPECT_EQ(problem_of<Error>([&] { (void)save_alone(state, scratch.path()); }).code, "LS-9001");
  state = filled(5);
  state.entries[2].name = "half";
  EXPECT_EQ(problem_of<Error>([&] { (void)save_alone(state, scratch.path()); }).code, "LS-9001");
  EXPECT_TRUE(complete_steps(scratch.path()).empty());
}

TEST(Checkpoint, TwoRanksSaveOneCheckpointAndBothLoadIt) {
  test::run_ranks(2, [&](comm::Group& group) {
    const SharedFolder shared(group);
    const fs::path& dir = shared.path();
    const TrainState saved = filled(5);
    const fs::path step = save(saved, dir, {}, group, 1);
    TrainState state = filled(6 + group.rank());
    EXPECT_EQ(load(state, step, group).world_size, 2);
    EXPECT_EQ(state_sha256(state), state_sha256(saved));
  });
}

/// A folder that all calls of run_ranks in one test share.
class FolderOfTest {
 public:
  FolderOfTest() : is_owner_(!test::in_rank_process()) {
    const pid_t owner = is_owner_ ? ::getpid() : ::getppid();
    path_ = fs::path(testing::TempDir()) / ("lockstep-layouts-" + std::to_string(owner));
    if (is_owner_) fs::create_directories(path_);
  }
  FolderOfTest(const FolderOfTest&) = delete;
  FolderOfTest& operator=(const FolderOfTest&) = delete;
  ~FolderOfTest() {
    if (is_owner_) fs::remove_all(path_);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  bool is_owner_;
  fs::path path_;
};

/// This rank's part of `whole` along `dim`, uneven where ranks do not divide it.
StateEntry shard(const std::string& name, const at::Tensor& whole, std::int64_t dim, int rank,
                 int ranks, StateKind kind = StateKind::parameter) {
  const std::int64_t length = whole.size(dim);
  const std::int64_t begin = length * rank / ranks;
  const std::int64_t end = length * (rank + 1) / ranks;
  StateEntry part = entry(name, whole.narrow(dim, begin, end - begin).clone(), kind);
  part.global_shape = whole.sizes().vec();
  part.offset[static_cast<std::size_t>(dim)] = begin;
  return part;
}

/// A state cut in every way at once; `factor` 1 = as it was saved.
TrainState cut_state(int rank, int ranks, double factor) {
  const auto numbers = [&](at::IntArrayRef shape) {
    return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape) * factor;
  };
  TrainState state;
  state.entries.push_back(entry("whole", numbers({3000, 200})));  // 2.4 MB: written by all ranks
  state.entries.push_back(shard("rows", numbers({13, 4}), 0, rank, ranks));
  state.entries.push_back(shard("columns", numbers({5, 13}), 1, rank, ranks));
  state.entries.push_back(shard("half", numbers({7, 3, 9}).to(at::kBFloat16), 2, rank, ranks));
  state.entries.push_back(
      shard("rows/moment1", numbers({13, 4}) + 1, 0, rank, ranks, StateKind::optimizer));
  state.step = 7;
  return state;
}

/// Without any conversion between.
TEST(Checkpoint, WhatFourRanksSaveEveryOtherNumberOfRanksLoads) {
  const FolderOfTest folder;
  test::run_ranks(4, [&](comm::Group& group) {
    const fs::path step = save(cut_state(group.rank(), 4, 1), folder.path(), {}, group, 0);
    EXPECT_TRUE(verify_step(step).empty());
    const Manifest manifest = read_manifest(step);
    EXPECT_EQ(manifest.file_bytes.size(), 8U);  // weights and optimizer of each rank
    for (const ManifestTensor& tensor : manifest.tensors) {
      EXPECT_EQ(tensor.pieces.size(), 4U) << tensor.name;
    }
  });
  for (const int ranks : {1, 2, 3, 4, 6}) {
    test::run_ranks(ranks, [&](comm::Group& group) {
      TrainState loaded = cut_state(group.rank(), ranks, 0);
      (void)load(loaded, folder.path() / "step-7", group);
      const TrainState expected = cut_state(group.rank(), ranks, 1);
      for (std::size_t i = 0; i < expected.entries.size(); ++i) {
        EXPECT_TRUE(at::equal(loaded.entries[i].tensor, expected.entries[i].tensor))
            << expected.entries[i].name << " of rank " << group.rank() << " of " << ranks;
      }
    });
  }
}

TEST(Checkpoint, WhatOneRankHasAndNoneSharesIsWrittenByThatRank) {
  test::run_ranks(3, [&](comm::Group& group) {
    const SharedFolder shared(group);
    TrainState state;
    const auto own = std::to_string(group.rank());
    state.entries.push_back(entry("of rank " + own, at::full({4}, group.rank())));
    const fs::path step = save(state, shared.path(), {}, group, 0);
    const Manifest manifest = read_manifest(step);
    ASSERT_EQ(manifest.tensors.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(manifest.tensors[i].pieces.at(0).file,
                "model-0000" + std::to_string(i + 1) + "-of-00003.safetensors");
    }
  });
}

TEST(AsyncSaver, WritesTheStateOfTheMomentWhileItChanges) {
  test::run_ranks(2, [&](comm::Group& group) {
    const SharedFolder shared(group);
    const auto behind = test::join_another(group, "behind");
    TrainState state = filled(5);
    const TrainState expected = filled(5);
    AsyncSaver saver(*behind, shared.path(), 0);
    EXPECT_TRUE(saver.save(state, {}, group).empty());
    for (StateEntry& entry : state.entries) entry.tensor.zero_();  // training goes on
    const auto outcomes = saver.finish();
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].step, 5);
    EXPECT_FALSE(outcomes[0].fault.has_value());
    TrainState loaded = filled(6);
    (void)load(loaded, shared.path() / "step-5", group);
    EXPECT_EQ(state_sha256(loaded), state_sha256(expected));
  });
}

/// All but the last one may still be under way when the next begins.
TEST(AsyncSaver, TellsAllRanksOfTheSameSavesHoweverFastTheyAre) {
  test::run_ranks(3, [&](comm::Group& group) {
    const SharedFolder shared(group);
    const auto behind = test::join_another(group, "behind");
    AsyncSaver saver(*behind, shared.path(), 2);
    std::vector<std::int64_t> told;
    const auto hear = [&](const std::vector<SaveOutcome>& outcomes) {
      for (const SaveOutcome& one : outcomes) told.push_back(one.step);
    };
    for (std::int64_t step = 1; step <= 6; ++step) {
      hear(saver.save(filled(step), {}, group));
      EXPECT_EQ(told.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, step - 2)));
      if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    hear(saver.finish());
    EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(complete_steps(shared.path()).size(), 2U);
    EXPECT_TRUE(saver.finish().empty());
  });
}

TEST(AsyncSaver, AFullDiskIsAnOutcomeAndLaterSavesAreTried) {
  test::run_ranks(2, [&](comm::Group& group) {
    const SharedFolder shared(group);
    const auto behind = test::join_another(group, "behind");
    AsyncSaver nowhere(*behind, "/proc/none", 0);
    EXPECT_TRUE(nowhere.save(filled(5), {}, group).empty());
    EXPECT_TRUE(nowhere.save(filled(6), {}, group).empty());
    const auto outcomes = nowhere.finish();
    ASSERT_EQ(outcomes.size(), 2U);
    for (const SaveOutcome& one : outcomes) {
      ASSERT_TRUE(one.fault.has_value());
      EXPECT_EQ(one.fault->code, "LS-5002");
    }
  });
}

TEST(Checkpoint, WhatOneRankCannotLoadNoRankHasLoaded) {
  test::run_ranks(2, [&](comm::Group& group) {
    const SharedFolder shared(group);
    const fs::path step = save(filled(5), shared.path(), {}, group, 1);
    TrainState state = filled(6);
    if (group.rank() == 1) state.entries[4].name = "unseen";
    const Problem problem = problem_of<BadData>([&] { (void)load(state, step, group); });
    EXPECT_EQ(problem.code, "LS-5006");
    EXPECT_EQ(problem.where.find("rank 1: "), 0U) << problem.where;
    EXPECT_EQ(state.step, 6);
  });
}

TEST(Checkpoint, ASaveThatFailsOnTheWriterFailsOnAllRanks) {
  test::run_ranks(2, [&](comm::Group& group) {
    const Problem problem =
        problem_of<EnvironmentFault>([&] { (void)save(filled(5), "/proc/none", {}, group, 1); });
    EXPECT_EQ(problem.code, "LS-5002");
    group.barrier();  // and training could go on
  });
}

TEST(RunOnAll, TheClassAndProblemsOfTheFirstFailingRankReachAllRanks) {
  test::run_ranks(2, [&](comm::Group& group) {
    const Problem problem = problem_of<BadData>([&] {
      run_on_all(group, [&] {
        if (group.rank() == 1) throw BadData({"LS-5004", "file \xff", "what", "fix"});
      });
    });
    EXPECT_EQ(problem.code, "LS-5004");
    EXPECT_EQ(problem.fix, "fix");
    EXPECT_NO_THROW(run_on_all(group, [] {}));
  });
}

}  // namespace
}  // namespace lockstep::checkpoint
