#include "lockstep/checkpoint/format/step_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lockstep/checkpoint/format/box_runs.h"
#include "lockstep/checkpoint/format/tensor_file.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::HasSubstr;

std::vector<std::byte> ramp(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 31 + i / 256);
  return values;
}

/// A tensor and the boxes it is cut into; box k goes to the file of rank k.
struct Cut {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<Box> boxes;
};

std::vector<std::byte> bytes_of_box(const Cut& cut, const Box& box) {
  const auto width = static_cast<std::size_t>(element_bits(cut.dtype)) / 8;
  auto whole = ramp(*tensor_bytes(cut.dtype, cut.shape));
  if (width == 0) return whole;  // elements below one byte
  const BoxRuns runs(cut.shape, box);
  std::vector<std::byte> bytes;
  for (std::uint64_t run = 0; run < runs.count(); ++run) {
    const auto* from = whole.data() + runs.start(run) * width;
    bytes.insert(bytes.end(), from, from + runs.elements() * width);
  }
  return bytes;
}

/// A step whose tensors lie in as many files as there are boxes.
fs::path write_step(const fs::path& dir, const std::vector<Cut>& cuts) {
  Manifest manifest;
  manifest.step = 12;
  manifest.layout = "data=2";
  manifest.config_json = "{}";
  manifest.versions = {{"lockstep", "1.2"}};
  std::size_t ranks = 0;
  for (const Cut& cut : cuts) {
    manifest.tensors.push_back(
        {cut.name, "parameter", cut.dtype, cut.shape, {cut.name + "_2"}, {}});
    ranks = std::max(ranks, cut.boxes.size());
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<TensorInfo> infos;
    for (const Cut& cut : cuts) {
      if (rank < cut.boxes.size()) infos.push_back({cut.name, cut.dtype, cut.boxes[rank].shape});
    }
    const std::string file_name = "model-" + std::to_string(rank) + ".safetensors";
    TensorFile file(dir / file_name, infos, {});
    for (const TensorInfo& info : file.tensors()) {
      const auto at = std::find_if(cuts.begin(), cuts.end(),
                                   [&](const Cut& cut) { return cut.name == info.name; });
      Piece piece = file.write(bytes_of_box(*at, at->boxes[rank]));
      piece.offset = at->boxes[rank].offset;
      manifest.tensors[static_cast<std::size_t>(at - cuts.begin())].pieces.push_back(piece);
    }
    manifest.file_bytes[file_name] = file.commit();
  }
  std::ofstream(dir / kManifestName) << write_manifest(manifest);
  return dir;
}

/// Every range of every tensor is what was written.
void expect_every_range(const StepSource& source) {
  for (std::size_t index = 0; index < source.tensors().size(); ++index) {
    const auto whole = ramp(source.tensors()[index].bytes());
    for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
      for (std::size_t bytes = 0; begin + bytes <= whole.size(); ++bytes) {
        std::vector<std::byte> out(bytes);
        source.read(index, begin, out);
        ASSERT_TRUE(std::equal(out.begin(), out.end(), whole.begin() + static_cast<long>(begin)))
            << source.tensors()[index].name << " from " << begin << ", " << bytes << " bytes";
      }
    }
  }
}

TEST(StepSource, TensorsOfSeveralFilesAreWhole) {
  const ScratchFolder scratch;
  const StepSource source(write_step(
      scratch.path(),
      {{"rows", "F32", {4, 2}, {{{0, 0}, {1, 2}}, {{1, 0}, {3, 2}}}},
       {"columns", "BF16", {3, 5}, {{{0, 0}, {3, 2}}, {{0, 2}, {3, 1}}, {{0, 3}, {3, 2}}}},
       {"corners",
        "U8",
        {3, 2, 3},
        {{{0, 0, 0}, {1, 2, 3}},
         {{1, 0, 0}, {2, 1, 3}},
         {{1, 1, 0}, {2, 1, 1}},
         {{1, 1, 1}, {2, 1, 2}}}},
       {"whole", "F64", {2}, {{{0}, {2}}}},
       {"number", "I64", {}, {{{}, {}}}},
       {"empty", "F32", {0, 3}, {{{0, 0}, {0, 3}}}}}));
  ASSERT_EQ(source.tensors().size(), 6U);
  EXPECT_EQ(source.format(), "lockstep");
  expect_every_range(source);
  EXPECT_TRUE(source.verify().empty());
}

TEST(StepSource, KindsAliasesAndFactsAreKept) {
  const ScratchFolder scratch;
  const StepSource source(write_step(scratch.path(), {{"w", "F32", {2}, {{{0}, {2}}}}}));
  EXPECT_EQ(source.tensors()[0].kind, "parameter");
  EXPECT_EQ(source.tensors()[0].aliases, std::vector<std::string>{"w_2"});
  EXPECT_EQ(source.facts().at("step"), "12");
  EXPECT_EQ(source.facts().at("layout"), "data=2");
  EXPECT_EQ(source.facts().at("version.lockstep"), "1.2");
  EXPECT_EQ(source.manifest().step, 12);
}

TEST(StepSource, AMillionTinyRunsAreReadInBatches) {
  const ScratchFolder scratch;
  const std::int64_t rows = 400'000;
  const StepSource source(write_step(
      scratch.path(), {{"w", "F32", {rows, 3}, {{{0, 0}, {rows, 1}}, {{0, 1}, {rows, 2}}}}}));
  std::vector<std::byte> out(source.tensors()[0].bytes());
  source.read(0, 0, out);
  EXPECT_EQ(out, ramp(out.size()));
}

/// Flips a bit of the file's last byte.
void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get() ^ 4);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

TEST(StepSource, WhatChangedIsRefusedAlsoWhereAPartIsRead) {
  const ScratchFolder scratch;
  write_step(scratch.path(), {{"w", "U8", {2, 3}, {{{0, 0}, {2, 2}}, {{0, 2}, {2, 1}}}}});
  const StepSource source(scratch.path());
  damage(scratch.path() / "model-1.safetensors");
  std::vector<std::byte> all(6);
  const Problem problem = test::problem_of<BadData>([&] { source.read(0, 0, all); });
  EXPECT_EQ(problem.code, "LS-5005");
  EXPECT_EQ(problem.where, scratch.path() / "model-1.safetensors");
  EXPECT_THAT(problem.what, HasSubstr("\"w\""));
  std::vector<std::byte> part(3);
  EXPECT_EQ(test::problem_of<BadData>([&] { source.read(0, 0, part); }), problem);
  EXPECT_NO_THROW(source.read(0, 0, std::span(part).first(2)));  // of the other file
  const auto problems = source.verify();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0], problem);
}

TEST(StepSource, AFileThatShrinksWhileItIsReadIsDamage) {
  const ScratchFolder scratch;
  write_step(scratch.path(), {{"w", "U8", {6}, {{{0}, {6}}}}});
  const StepSource source(scratch.path());
  const fs::path file = scratch.path() / "model-0.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(source.verify(0).at(0).code, "LS-5004");
  std::vector<std::byte> all(6);
  EXPECT_THROW(source.read(0, 0, all), BadData);
}

TEST(StepSource, AFolderWithoutAManifestIsNone) {
  const ScratchFolder scratch;
  EXPECT_EQ(test::problem_of<BadData>([&] { const StepSource source(scratch.path()); }).code,
            "LS-5003");
}

TEST(StepSource, AReadBeyondATensorIsABugOfTheCaller) {
  const ScratchFolder scratch;
  const StepSource source(write_step(scratch.path(), {{"w", "U8", {6}, {{{0}, {6}}}}}));
  std::vector<std::byte> bytes(2);
  EXPECT_THROW(source.read(0, 5, bytes), Bug);
  EXPECT_THROW(source.read(1, 0, bytes), Bug);
}

TEST(StepSource, HalfBytesAreReadWholeAndNotPutTogether) {
  const ScratchFolder scratch;
  {
    const StepSource source(write_step(scratch.path(), {{"w", "F4", {2, 2}, {{{0, 0}, {2, 2}}}}}));
    std::vector<std::byte> bytes(2);
    source.read(0, 0, bytes);
    EXPECT_EQ(bytes, ramp(2));
  }
  const ScratchFolder other;
  Manifest manifest = StepSource(scratch.path()).manifest();
  Piece half = manifest.tensors[0].pieces[0];
  half.shape = {1, 2};
  half.byte_count = 1;
  manifest.tensors[0].pieces.clear();
  manifest.file_bytes.clear();
  for (const std::int64_t row : {0, 1}) {
    half.file = "half-" + std::to_string(row) + ".safetensors";
    TensorFile file(other.path() / half.file, {{"w", "F4", {1, 2}}}, {});
    half.byte_offset = file.write(ramp(1)).byte_offset;
    manifest.file_bytes[half.file] = file.commit();
    half.offset = {row, 0};
    manifest.tensors[0].pieces.push_back(half);
  }
  std::ofstream(other.path() / kManifestName) << write_manifest(manifest);
  EXPECT_THAT(test::problem_of<BadData>([&] { const StepSource source(other.path()); }).what,
              HasSubstr("F4 in several pieces"));
}

}  // namespace
}  // namespace lockstep::checkpoint
