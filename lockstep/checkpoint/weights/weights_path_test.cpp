#include "lockstep/checkpoint/weights/weights_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lockstep/checkpoint/tools/copy_tensors.h"
#include "lockstep/checkpoint/tools/open_checkpoint.h"
#include "lockstep/checkpoint/tools/sink_for.h"
#include "lockstep/checkpoint/weights/weights_testing.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::problem_of;
using test::ScratchFolder;

class WeightFiles : public testing::Test {
 protected:
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }

  /// Writes `source` and gives back what it is opened by.
  [[nodiscard]] fs::path write(const TensorSource& source, const std::string& out,
                               const OutputOptions& options = {}) const {
    Output output =
        sink_for(path(out), {source.tensors().begin(), source.tensors().end()}, {}, options);
    copy_tensors(source, *output.sink);
    output.sink->commit();
    return output.path;
  }

  ScratchFolder scratch_;
  TagRegistry tags_{scratch_.path() / "tags"};
};

TEST_F(WeightFiles, EveryFormatThatIsReadGivesTheSameWeights) {
  const auto theirs = source_of(kGpt2Theirs);
  const auto wanted = tied_gpt();
  const auto expected =
      all_bits(match_weights(source_of(kGpt2Theirs), "gpt", wanted, {}, "x"), wanted);
  ASSERT_EQ(expected.size(), wanted.size());
  for (const fs::path& written :
       {write(*theirs, "a.safetensors"), write(*theirs, "shards", {"safetensors", 1000}),
        write(*theirs, "a.pt"), write(*theirs, "dcp", {"dcp"}),
        write(*theirs, "run/checkpoints", {.format = "lockstep", .ranks = 3})}) {
    OpenCheckpoint open = open_checkpoint(written);
    const WeightsMatch found =
        match_weights(std::move(open.source), "gpt", wanted, {}, open.path.string());
    EXPECT_EQ(all_bits(found, wanted), expected) << written;
  }
  OpenCheckpoint run = open_checkpoint(path("run"));  // its newest complete step
  EXPECT_EQ(match_weights(std::move(run.source), "gpt", wanted, {}, "run").report.matched.size(),
            28U);
}

TEST_F(WeightFiles, ATagStandsForItsCheckpoint) {
  Tag tag;
  tag.name = "best";
  tag.path = write(*source_of("a F32 [2]"), "a.safetensors");
  (void)tags_.add(tag);
  EXPECT_EQ(weights_path("best", tags_), path("a.safetensors"));
}

TEST_F(WeightFiles, APathGoesBeforeATagOfThatName) {
  const std::string file = write(*source_of("a F32 [2]"), "a.safetensors").string();
  EXPECT_EQ(weights_path(file, tags_), file);
  EXPECT_EQ(weights_path(".", tags_), ".");
}

TEST_F(WeightFiles, WhatIsNeitherIsLeftToTheReaderToRefuse) {
  for (const std::string named : {"nothing-here", "", "../nothing", "a\nb"}) {
    EXPECT_EQ(weights_path(named, tags_), named);
    EXPECT_EQ(problem_of<BadData>([&] { (void)open_checkpoint(weights_path(named, tags_)); }).code,
              "LS-5003");
  }
}

TEST_F(WeightFiles, ADamagedTagIsRefused) {
  fs::create_directories(path("tags"));
  std::ofstream(path("tags") / "best.json") << "{";
  EXPECT_EQ(problem_of<BadData>([&] { (void)weights_path("best", tags_); }).code, "LS-5004");
}

}  // namespace
}  // namespace lockstep::checkpoint
