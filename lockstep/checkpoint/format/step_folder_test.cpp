#include "lockstep/checkpoint/format/step_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/manifest.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

void save(const fs::path& dir, std::int64_t step, const std::string& text) {
  StepDraft draft(dir, step);
  put(draft.path() / kManifestName, text);
  (void)draft.commit();
}

std::vector<std::int64_t> steps_in(const fs::path& dir) {
  std::vector<std::int64_t> steps;
  for (const StepFolder& folder : complete_steps(dir)) steps.push_back(folder.step);
  return steps;
}

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(StepFolder, TheNewestStepIsTheOneWithTheHighestNumber) {
  const ScratchFolder scratch;
  for (const std::int64_t step : {9, 100, 20}) save(scratch.path() / "c", step, "m");
  EXPECT_EQ(steps_in(scratch.path() / "c"), (std::vector<std::int64_t>{100, 20, 9}));
  EXPECT_EQ(newest_complete(scratch.path() / "c"), scratch.path() / "c" / "step-100");
}

TEST(StepFolder, AMissingFolderHasNoSteps) {
  const ScratchFolder scratch;
  EXPECT_TRUE(complete_steps(scratch.path() / "none").empty());
  EXPECT_EQ(newest_complete(scratch.path() / "none"), std::nullopt);
}

TEST(StepFolder, WithoutAManifestAFolderIsNoCheckpoint) {
  const ScratchFolder scratch;
  save(scratch.path(), 5, "m");
  fs::create_directory(scratch.path() / "step-6");
  fs::create_directories(scratch.path() / "step-7" / kManifestName);
  put(scratch.path() / "step-8", "a file");
  EXPECT_EQ(steps_in(scratch.path()), std::vector<std::int64_t>{5});
}

TEST(StepFolder, OtherNamesAreNotSteps) {
  const ScratchFolder scratch;
  for (const char* name : {"step-", "step-x", "step--1", "step-07", "step-1 ", "Step-1",
                           "step-1.tmp", "step-99999999999999999999", ".step-3.tmp"}) {
    fs::create_directory(scratch.path() / name);
    put(scratch.path() / name / kManifestName, "m");
  }
  EXPECT_TRUE(complete_steps(scratch.path()).empty());
}

TEST(StepFolder, ADraftIsInvisibleAndGoesWithItsWriter) {
  const ScratchFolder scratch;
  {
    const StepDraft draft(scratch.path(), 5);
    put(draft.path() / kManifestName, "m");
    EXPECT_TRUE(complete_steps(scratch.path()).empty());
  }
  EXPECT_TRUE(names_in(scratch.path()).empty());
}

TEST(StepFolder, ADraftThatIsLeftStaysUntilTheNextOne) {
  const ScratchFolder scratch;
  {
    StepDraft draft(scratch.path(), 5);
    put(draft.path() / "model.safetensors", "half");
    draft.leave();
  }
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{".step-5.tmp"});
  EXPECT_TRUE(complete_steps(scratch.path()).empty());
  save(scratch.path(), 5, "m");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"step-5"});
}

TEST(StepFolder, ANewDraftRemovesWhatADeadWriterLeft) {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path() / ".step-4.tmp");
  put(scratch.path() / ".step-4.tmp" / "model.safetensors", "half");
  put(scratch.path() / "notes.txt", "mine");
  save(scratch.path(), 5, "m");
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"notes.txt", "step-5"}));
}

TEST(StepFolder, TheDraftOfALivingWriterIsLeftAlone) {
  const ScratchFolder scratch;
  StepDraft slow(scratch.path(), 4);
  put(slow.path() / kManifestName, "slow");
  save(scratch.path(), 5, "quick");
  EXPECT_THROW(StepDraft(scratch.path(), 4), fs::filesystem_error);
  EXPECT_EQ(text_of(slow.path() / kManifestName), "slow");
  (void)slow.commit();
  EXPECT_EQ(steps_in(scratch.path()), (std::vector<std::int64_t>{5, 4}));
}

TEST(StepFolder, SavingAStepAgainReplacesIt) {
  const ScratchFolder scratch;
  save(scratch.path(), 5, "old");
  save(scratch.path(), 5, "new");
  EXPECT_EQ(text_of(scratch.path() / "step-5" / kManifestName), "new");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"step-5"});
}

// Where a file system cannot exchange two folders, the old one is set aside for a moment.
TEST(StepFolder, AStepSetAsideCountsUntilItsSuccessorIsThere) {
  const ScratchFolder scratch;
  save(scratch.path(), 5, "old");
  fs::rename(scratch.path() / "step-5", scratch.path() / ".step-5.old");
  EXPECT_EQ(newest_complete(scratch.path()), scratch.path() / ".step-5.old");
  save(scratch.path(), 5, "new");
  EXPECT_EQ(newest_complete(scratch.path()), scratch.path() / "step-5");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"step-5"});
}

TEST(StepFolder, OnlyTheNewestAreKept) {
  const ScratchFolder scratch;
  for (const std::int64_t step : {1, 2, 3, 10}) save(scratch.path(), step, "m");
  fs::create_directory(scratch.path() / "step-4");  // somebody's copy in progress
  remove_old_steps(scratch.path(), 0);
  EXPECT_EQ(steps_in(scratch.path()).size(), 4U);
  remove_old_steps(scratch.path(), 2);
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"step-10", "step-3", "step-4"}));
  remove_old_steps(scratch.path(), 5);
  EXPECT_EQ(steps_in(scratch.path()), (std::vector<std::int64_t>{10, 3}));
}

TEST(StepFolder, AFileInTheWayIsAnErrorOfTheSystem) {
  const ScratchFolder scratch;
  put(scratch.path() / "c", "a file");
  EXPECT_THROW(StepDraft(scratch.path() / "c", 1), fs::filesystem_error);
}

}  // namespace
}  // namespace lockstep::checkpoint
