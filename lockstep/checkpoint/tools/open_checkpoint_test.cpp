#include "lockstep/checkpoint/tools/open_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/safetensors_sink.h"
#include "lockstep/checkpoint/format/step_sink.h"
#include "lockstep/checkpoint/tools/copy_tensors.h"
#include "lockstep/checkpoint/tools/diff.h"
#include "lockstep/checkpoint/tools/memory_source_testing.h"
#include "lockstep/checkpoint/tools/sink_for.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using lockstep::test::ScratchFolder;
using testing::HasSubstr;
using testing::IsEmpty;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    source_.add({"fc.weight", "F32", {2, 3}, "parameter", {"head.weight"}},
                bytes_of<float>({1, 2, 3, 4, 5, 6}));
    source_.add({"fc.bias", "F32", {2}, "parameter"}, bytes_of<float>({-1, 1}));
    source_.add({"seen", "I64", {}, "buffer"}, bytes_of<std::int64_t>({9}));
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }

  [[nodiscard]] std::vector<StoredTensor> tensors() const {
    return {source_.tensors().begin(), source_.tensors().end()};
  }

  /// Writes the three tensors as `out` and gives back what it is opened by.
  fs::path write(const std::string& out, const OutputOptions& options = {},
                 const OutputFacts& facts = {}) const {
    Output output = sink_for(path(out), tensors(), facts, options);
    copy_tensors(source_, *output.sink);
    output.sink->commit();
    return output.path;
  }

  [[nodiscard]] Problem refusal(const std::string& out, const OutputOptions& options) const {
    return lockstep::test::problem_of<UsageError>(
        [&] { (void)sink_for(path(out), tensors(), {}, options); });
  }

  fs::path put(const std::string& name, const std::string& bytes) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  ScratchFolder scratch_;
  MemorySource source_;
};

TEST_F(Checkpoints, OfEveryWrittenFormatAreOpenedAgain) {
  struct Case {
    std::string out;
    OutputOptions options;
    std::string format;
  };
  const std::vector<Case> cases{
      {"new/model.safetensors", {}, "safetensors"},
      {"new/model.pt", {}, "torch"},
      {"model.pth", {}, "torch"},
      {"shards", {.max_shard_bytes = 16}, "safetensors"},
      {"folder", {.format = "safetensors"}, "safetensors"},
      {"sharded.safetensors", {.max_shard_bytes = 16}, "safetensors"},
      {"dcp", {.format = "dcp"}, "dcp"},
      {"run/checkpoints", {.format = "lockstep"}, "lockstep"},
      {"cut", {.format = "lockstep", .ranks = 3}, "lockstep"},
  };
  for (const Case& one : cases) {
    const fs::path written = write(one.out, one.options);
    const OpenCheckpoint open = open_checkpoint(written);
    EXPECT_EQ(open.source->format(), one.format) << one.out;
    EXPECT_TRUE(diff(source_, *open.source).is_same()) << one.out;
  }
}

TEST_F(Checkpoints, OfARunTheNewestCompleteStepIsOpened) {
  for (const char* step : {"3", "20"}) {
    write("run/checkpoints", {.format = "lockstep"}, {.facts = {{"step", step}}});
  }
  fs::create_directories(path("run/checkpoints/step-30"));
  for (const char* name : {"run", "run/checkpoints"}) {
    const OpenCheckpoint open = open_checkpoint(path(name));
    EXPECT_EQ(open.path, path("run/checkpoints/step-20"));
    EXPECT_EQ(open.source->facts().at("step"), "20");
  }
}

TEST_F(Checkpoints, FactsGoWithTheTensorsWhereThereIsAPlace) {
  const std::map<std::string, std::string> facts{
      {"step", "7"}, {"best", "fc.bias"}, {"bad", "\xff"}, {"format", "of another"}};
  const auto kept = open_checkpoint(write("a.safetensors", {}, {.facts = facts})).source->facts();
  EXPECT_EQ(kept, (std::map<std::string, std::string>{{"step", "7"}, {"format", "pt"}}));
  EXPECT_EQ(write("steps", {.format = "lockstep"}, {.facts = facts}).filename(), "step-7");
  const Output torch = sink_for(path("a.pt"), tensors(), {.facts = facts}, {});
  ASSERT_EQ(torch.notes.size(), 1U);
  EXPECT_THAT(torch.notes[0], HasSubstr("no place for: bad, best, step"));
}

TEST_F(Checkpoints, AStepThatIsNoNumberIsStepZero) {
  for (const char* step : {"-1", "7 or so", "", "99999999999999999999"}) {
    EXPECT_EQ(write("steps", {.format = "lockstep", .force = true}, {.facts = {{"step", step}}})
                  .filename(),
              "step-0");
  }
}

TEST_F(Checkpoints, WhatIsThereIsReplacedOnlyByForce) {
  const std::vector<std::pair<std::string, OutputOptions>> outputs{
      {"model.safetensors", {}},           {"model.pt", {}},
      {"shards", {.max_shard_bytes = 16}}, {"many.safetensors", {.max_shard_bytes = 16}},
      {"steps", {.format = "lockstep"}},   {"dcp", {.format = "dcp"}},
  };
  for (auto [out, options] : outputs) {
    write(out, options);
    EXPECT_EQ(refusal(out, options).code, "LS-1021") << out;
    options.force = true;
    EXPECT_TRUE(diff(source_, *open_checkpoint(write(out, options)).source).is_same()) << out;
  }
}

TEST_F(Checkpoints, NothingIsLeftOfARefusalOrADroppedSink) {
  put("model-00001-of-00002.safetensors", "somebody's");
  EXPECT_THAT(refusal("model.safetensors", {.max_shard_bytes = 16}).what, HasSubstr("there"));
  (void)sink_for(path("dropped.safetensors"), tensors(), {}, {});
  (void)sink_for(path("dropped.pt"), tensors(), {}, {});
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(scratch_.path())) {
    ++files;
    EXPECT_EQ(entry.path().filename(), "model-00001-of-00002.safetensors");
  }
  EXPECT_EQ(files, 1U);
}

TEST_F(Checkpoints, OutputsThatDoNotFitAreRefusedWithWhatToDo) {
  EXPECT_THAT(refusal("somewhere", {}).fix, HasSubstr("--to"));
  EXPECT_EQ(refusal("somewhere", {.format = "gguf"}).code, "LS-5019");
  EXPECT_THAT(refusal("model.pt", {.format = "safetensors"}).what, HasSubstr("name is that of"));
  EXPECT_THAT(refusal("model.pt", {.max_shard_bytes = 5}).what, HasSubstr("only safetensors"));
  put("file", "x");
  EXPECT_THAT(refusal("file", {.format = "safetensors"}).what, HasSubstr("is a file"));
  const fs::path step = write("steps", {.format = "lockstep"});
  EXPECT_THAT(refusal("steps/step-0", {.format = "lockstep"}).fix, HasSubstr("above"));
}

TEST_F(Checkpoints, FoldersOfOthersThatDoNotAddUpAreRefused) {
  put("dcp/.metadata", "x");
  put("ds/global_step5/mp_rank_00_model_states.pt", "x");
  put("ds/latest", "global_step5");
  for (const char* name : {"dcp", "ds"}) {
    const Problem problem =
        lockstep::test::problem_of<BadData>([&] { (void)open_checkpoint(path(name)); });
    EXPECT_THAT(problem.code, testing::AnyOf("LS-5012", "LS-5020")) << name;
    EXPECT_FALSE(problem.fix.empty());
  }
}

TEST_F(Checkpoints, WhatIsNoneIsNamedForWhatItIs) {
  const auto problem = [&](const std::string& name) {
    return lockstep::test::problem_of<BadData>([&] { (void)open_checkpoint(path(name)); });
  };
  put("page.pt", "<!DOCTYPE html><html></html>");
  put("zeros.safetensors", std::string(4096, '\0'));
  fs::create_directories(path("empty"));
  EXPECT_THAT(problem("page.pt").what, HasSubstr("HTML"));
  EXPECT_THAT(problem("zeros.safetensors").what, HasSubstr("zeros"));
  EXPECT_THAT(problem("empty").what, HasSubstr("no checkpoint files in " + path("empty").string()));
  EXPECT_THAT(problem("absent").what, HasSubstr("no such file"));
  for (const char* name : {"page.pt", "zeros.safetensors", "empty", "absent"}) {
    EXPECT_EQ(problem(name).code, "LS-5003");
  }
}

TEST_F(Checkpoints, TheLongestHeaderIsTheCallersChoice) {
  const fs::path file = write("model.safetensors");
  EXPECT_NO_THROW((void)open_checkpoint(file, {.max_header_bytes = 1000}));
  const Problem problem = lockstep::test::problem_of<BadData>(
      [&] { (void)open_checkpoint(file, {.max_header_bytes = 50}); });
  EXPECT_THAT(problem.fix, HasSubstr("--max-header"));
}

}  // namespace
}  // namespace lockstep::checkpoint
