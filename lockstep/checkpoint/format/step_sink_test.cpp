#include "lockstep/checkpoint/format/step_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "lockstep/checkpoint/format/safetensors_source.h"
#include "lockstep/checkpoint/format/share_out.h"
#include "lockstep/checkpoint/format/step_source.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> content_of(const StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  const std::size_t seed = tensor.name.size() * 7 + static_cast<unsigned char>(tensor.name.back());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  }
  return bytes;
}

/// Writes every tensor in parts of `part` bytes.
fs::path write_all(const fs::path& dir, const std::vector<StoredTensor>& tensors,
                   const StepSinkOptions& options, std::size_t part = 1 << 20) {
  StepSink sink(dir, tensors, options);
  for (const StoredTensor& tensor : sink.order()) {
    const auto bytes = content_of(tensor);
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      sink.write(std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
    }
  }
  sink.commit();
  return sink.path();
}

void expect_all(const fs::path& step, const std::vector<StoredTensor>& tensors) {
  const StepSource source(step);
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) places[source.tensors()[i].name] = i;
  ASSERT_EQ(places.size(), tensors.size());
  for (const StoredTensor& tensor : tensors) {
    ASSERT_TRUE(places.contains(tensor.name)) << tensor.name;
    const StoredTensor& found = source.tensors()[places[tensor.name]];
    EXPECT_EQ(found.dtype, tensor.dtype);
    EXPECT_EQ(found.shape, tensor.shape);
    EXPECT_EQ(found.aliases, tensor.aliases);
    EXPECT_EQ(found.kind, tensor.kind.empty() ? "parameter" : tensor.kind);
    std::vector<std::byte> bytes(tensor.bytes());
    source.read(places[tensor.name], 0, bytes);
    EXPECT_EQ(bytes, content_of(tensor)) << tensor.name;
  }
  EXPECT_THAT(source.verify(), IsEmpty());
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

const std::vector<StoredTensor> kModel{
    {"w", "F32", {600, 1024}, "parameter", {"head"}},
    {"tall", "BF16", {3'000'001}, "parameter"},
    {"b", "F16", {7}, "buffer"},
    {"steps", "I64", {}, "buffer"},
    {"none", "F32", {0, 3}, "parameter"},
    {"half bytes", "F4", {3'000'000, 2}, "parameter"},
    {"w/moment1", "F32", {600, 1024}, "optimizer"},
    {"tall/moment1", "F32", {3'000'001}, "optimizer"},
};

TEST(StepSink, OneRankWritesTheFilesOfOneRank) {
  const ScratchFolder scratch;
  const fs::path step = write_all(scratch.path(), kModel, {});
  EXPECT_EQ(step, scratch.path() / "step-0");
  EXPECT_EQ(files_in(step),
            (std::set<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors"}));
  expect_all(step, kModel);
  EXPECT_EQ(SafetensorsSource(step / "model.safetensors").tensors().size(), 6U);
}

TEST(StepSink, AnyNumberOfRanksHoldsTheSameTensors) {
  for (const int ranks : {2, 3, 8, 40}) {
    const ScratchFolder scratch;
    const fs::path step = write_all(scratch.path(), kModel, {.ranks = ranks});
    expect_all(step, kModel);
    const StepSource source(step);
    EXPECT_EQ(source.manifest().world_size, ranks);
    EXPECT_EQ(source.manifest().layout, "data=" + std::to_string(ranks));
  }
}

TEST(StepSink, FilesAreNamedAsRanksNameThemAndOfAboutOneSize) {
  const ScratchFolder scratch;
  const fs::path step =
      write_all(scratch.path(), {{"w", "F32", {1024, 1024}, "parameter"}}, {.ranks = 4});
  for (int rank = 1; rank <= 4; ++rank) {
    const std::string name = "model-0000" + std::to_string(rank) + "-of-00004.safetensors";
    EXPECT_NEAR(static_cast<double>(fs::file_size(step / name)), 1 << 20, 1000) << name;
    const SafetensorsSource file(step / name);
    EXPECT_EQ(file.tensors()[0].shape, (Shape{256, 1024}));
  }
}

TEST(StepSink, BytesMayComeInPartsOfAnySize) {
  const std::vector<StoredTensor> tensors{{"a", "U8", {11}}, {"e", "F32", {0}}, {"z", "I32", {5}}};
  for (const std::size_t part : {1U, 2U, 3U, 100U}) {
    const ScratchFolder scratch;
    expect_all(write_all(scratch.path(), tensors, {.ranks = 2}, part), tensors);
  }
}

// Small tensors and rows of any size between large ones: each file is one stretch of the bytes.
TEST(StepSink, RandomModelsAreCutInTheOrderOfTheirBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    std::vector<StoredTensor> tensors;
    for (int i = 0; i < 12; ++i) {
      const std::int64_t rows = random() % 5 == 0 ? 1 : 1 + static_cast<int>(random() % 9);
      const std::int64_t row = 1 + static_cast<int>(random() % (random() % 2 == 0 ? 9 : 400'000));
      tensors.push_back({"t" + std::to_string(i),
                         random() % 2 == 0 ? "U8" : "I16",
                         {rows, row},
                         random() % 3 == 0 ? "optimizer" : "parameter"});
    }
    const ScratchFolder scratch;
    const int ranks = 1 + static_cast<int>(random() % 9);
    expect_all(write_all(scratch.path(), tensors, {.ranks = ranks}), tensors);
  }
}

TEST(StepSink, WhatTheSourceSaysOfItselfIsKept) {
  const ScratchFolder scratch;
  Manifest described;
  described.step = 900;
  described.epoch = 2;
  described.sample = 64;
  described.seed = -5;
  described.skipped_steps = 1;
  described.loss_scale = 1024;
  described.good_steps = 12;
  described.config_hash = "abc";
  described.config_json = R"({"run":{"name":"x"}})";
  described.versions = {{"lockstep", "1.2"}};
  described.world_size = 16;
  described.file_bytes = {{"gone.safetensors", 5}};
  described.tensors = {{"gone", "parameter", "F32", {1}, {}, {}}};
  const std::vector<StoredTensor> tensors{{"w", "F32", {2}, "parameter"}};
  const fs::path step = write_all(scratch.path(), tensors, {.ranks = 1, .described = described});
  EXPECT_EQ(step.filename(), "step-900");
  expect_all(step, tensors);
  const Manifest kept = read_manifest(step);
  EXPECT_EQ(kept.epoch, 2);
  EXPECT_EQ(kept.sample, 64);
  EXPECT_EQ(kept.seed, -5);
  EXPECT_EQ(kept.skipped_steps, 1);
  EXPECT_EQ(kept.loss_scale, 1024);
  EXPECT_EQ(kept.good_steps, 12);
  EXPECT_EQ(kept.config_hash, "abc");
  EXPECT_EQ(kept.config_json, described.config_json);
  EXPECT_EQ(kept.versions, described.versions);
  EXPECT_EQ(kept.world_size, 1);
  EXPECT_EQ(kept.file_bytes.size(), 1U);
}

TEST(StepSink, NothingIsLeftWithoutACommit) {
  const ScratchFolder scratch;
  {
    StepSink sink(scratch.path() / "deep" / "dir", {{"w", "F32", {4}}});
    const std::vector<std::byte> bytes(8);
    sink.write(bytes);
  }
  EXPECT_THAT(files_in(scratch.path() / "deep" / "dir"), IsEmpty());
}

TEST(StepSink, TakesThePlaceOfAnOlderCheckpointInOneMove) {
  const ScratchFolder scratch;
  write_all(scratch.path(), {{"old", "F32", {4}}}, {.ranks = 1});
  const std::vector<StoredTensor> tensors{{"new", "U8", {3}}};
  expect_all(write_all(scratch.path(), tensors, {.ranks = 1}), tensors);
  EXPECT_EQ(files_in(scratch.path()), (std::set<std::string>{"step-0"}));
}

TEST(StepSink, ACheckpointWithoutTensorsIsOne) {
  const ScratchFolder scratch;
  expect_all(write_all(scratch.path(), {}, {.ranks = 3}), {});
}

TEST(StepSink, NamesThatCannotBeHeldAreRefusedBeforeAnythingIsMade) {
  const ScratchFolder scratch;
  const fs::path dir = scratch.path() / "new";
  for (const char* name : {"__metadata__", "\xff"}) {
    EXPECT_EQ(test::problem_of<BadData>([&] {
                StepSink(dir, {{name, "F32", {1}}});
              }).code,
              "LS-5004");
  }
  EXPECT_EQ(test::problem_of<BadData>([&] {
              StepSink(dir, {{"w", "F32", {1}, "", {"\xc0\x80"}}});
            }).code,
            "LS-5004");
  EXPECT_THROW(StepSink(dir, {{"w", "F32", {1}}, {"w", "F32", {1}}}), Bug);
  EXPECT_FALSE(fs::exists(dir));
}

TEST(StepSink, TooManyOrTooFewBytesAreABugOfTheCaller) {
  const ScratchFolder scratch;
  StepSink sink(scratch.path(), {{"w", "U8", {3}}});
  const std::vector<std::byte> bytes(4);
  sink.write(std::span(bytes).first(2));
  EXPECT_THROW(sink.commit(), Bug);
  EXPECT_THROW(sink.write(std::span(bytes).first(2)), Bug);
}

}  // namespace
}  // namespace lockstep::checkpoint
