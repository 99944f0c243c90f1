#include "lockstep/checkpoint/format/safetensors_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/checkpoint/format/safetensors_source.h"
#include "lockstep/checkpoint/format/tensor_file.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> bytes_of(const StoredTensor& tensor) {
  std::vector<std::byte> values(tensor.bytes());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::byte>(i * 7 + tensor.name.size() + tensor.name[0]);
  }
  return values;
}

/// Writes everything in parts of `part_bytes`.
void fill(SafetensorsSink& sink, std::size_t part_bytes) {
  for (const StoredTensor& tensor : sink.order()) {
    const auto bytes = bytes_of(tensor);
    for (std::size_t at = 0; at < bytes.size(); at += part_bytes) {
      sink.write(std::span(bytes).subspan(at, std::min(part_bytes, bytes.size() - at)));
    }
  }
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<StoredTensor> kTensors{{"embed", "F32", {2, 3}, "parameter", {"head", "head2"}},
                                         {"b", "BF16", {5}},
                                         {"empty", "F32", {0}},
                                         {"n", "I64", {}},
                                         {"a", "F32", {4}}};

TEST(SafetensorsSink, OneFileIsReadBackWhateverThePartsItCameIn) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  for (const std::size_t part : {1U, 5U, 100U}) {
    SafetensorsSink sink(path, kTensors);
    fill(sink, part);
    sink.commit();
    EXPECT_TRUE(sink.notes().empty());
    const SafetensorsSource source(path);
    ASSERT_EQ(source.tensors().size(), kTensors.size());
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      const StoredTensor& tensor = source.tensors()[i];
      EXPECT_EQ(tensor.name, sink.order()[i].name);
      std::vector<std::byte> bytes(tensor.bytes());
      source.read(i, 0, bytes);
      EXPECT_EQ(bytes, bytes_of(tensor)) << tensor.name;
    }
    EXPECT_THAT(source.tensors()[1].aliases, ElementsAre());
    EXPECT_EQ(source.tensors()[2].name, "embed");
    EXPECT_THAT(source.tensors()[2].aliases, ElementsAre("head", "head2"));
  }
}

TEST(SafetensorsSink, AnAliasIsNotedUnderItsNameAndNotStored) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  SafetensorsSink sink(path, {{"embed", "U8", {2}, "", {"head", "format"}}});
  fill(sink, 2);
  sink.commit();
  EXPECT_THAT(text_of(path), HasSubstr(R"("__metadata__":{"format":"pt","head":"embed"})"));
  EXPECT_EQ(SafetensorsSource(path).tensors()[0].aliases, std::vector<std::string>{"head"});
  EXPECT_THAT(sink.notes(), ElementsAre(HasSubstr("alias \"format\"")));
}

TEST(SafetensorsSink, TheFileIsTheOneThatTensorFileWrites) {
  const ScratchFolder scratch;
  SafetensorsSink sink(scratch.path() / "a.safetensors", kTensors,
                       {0, {{"format", "pt"}, {"head", "embed"}, {"head2", "embed"}}});
  fill(sink, 3);
  sink.commit();
  std::vector<TensorInfo> infos;
  for (const auto& tensor : kTensors) infos.push_back({tensor.name, tensor.dtype, tensor.shape});
  TensorFile file(scratch.path() / "b.safetensors", infos,
                  {{"format", "pt"}, {"head", "embed"}, {"head2", "embed"}});
  for (const TensorInfo& info : file.tensors()) {
    (void)file.write(bytes_of({info.name, info.dtype, info.shape}));
  }
  (void)file.commit();
  EXPECT_EQ(text_of(scratch.path() / "a.safetensors"), text_of(scratch.path() / "b.safetensors"));
}

TEST(SafetensorsSink, ShardsAreFilledInTheOrderGivenAndIndexed) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  // 24, 10 | 8, 16 | 40 alone, being larger than a shard
  SafetensorsSink sink(path,
                       {{"z", "F32", {6}},
                        {"b", "BF16", {5}},
                        {"n", "I64", {}},
                        {"a", "F32", {4}},
                        {"big", "F32", {10}}},
                       {36, {{"format", "pt"}}});
  fill(sink, 7);
  sink.commit();
  EXPECT_THAT(files_in(scratch.path()),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"));
  EXPECT_EQ(sink.files().back(), scratch.path() / "model.safetensors.index.json");
  EXPECT_EQ(text_of(sink.files().back()), R"({
  "metadata": {
    "total_size": 98
  },
  "weight_map": {
    "a": "model-00002-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "big": "model-00003-of-00003.safetensors",
    "n": "model-00002-of-00003.safetensors",
    "z": "model-00001-of-00003.safetensors"
  }
}
)");
  const SafetensorsSource source(scratch.path());
  ASSERT_EQ(source.tensors().size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<std::byte> bytes(source.tensors()[i].bytes());
    source.read(i, 0, bytes);
    EXPECT_EQ(bytes, bytes_of(source.tensors()[i]));
  }
}

TEST(SafetensorsSink, WhatFitsIntoOneShardIsOneFileWithoutAnIndex) {
  const ScratchFolder scratch;
  SafetensorsSink sink(scratch.path() / "model.safetensors", kTensors, {1'000'000, {}});
  fill(sink, 10);
  sink.commit();
  EXPECT_THAT(files_in(scratch.path()), ElementsAre("model.safetensors"));
}

TEST(SafetensorsSink, NoTensorOrOnlyEmptyOnesMakeAValidFile) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  for (const std::vector<StoredTensor>& tensors :
       {std::vector<StoredTensor>{}, std::vector<StoredTensor>{{"e", "F32", {0}}}}) {
    SafetensorsSink sink(path, tensors, {10, {}});
    sink.write({});
    sink.commit();
    EXPECT_EQ(SafetensorsSource(path).tensors().size(), tensors.size());
  }
}

TEST(SafetensorsSink, WithoutACommitNothingIsLeftAndTheOldStays) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "model.safetensors.index.json") << "old";
  {
    SafetensorsSink sink(scratch.path() / "model.safetensors", kTensors, {20, {}});
    fill(sink, 10);
  }
  EXPECT_THAT(files_in(scratch.path()), ElementsAre("model.safetensors.index.json"));
  EXPECT_EQ(text_of(scratch.path() / "model.safetensors.index.json"), "old");
}

TEST(SafetensorsSink, FilesOfAnotherCheckpointInTheFolderAreNoted) {
  const ScratchFolder scratch;
  for (const char* name : {"model.safetensors", "model-00001-of-00009.safetensors",
                           "model-00001-of-00002.safetensors", "other.safetensors", "notes.txt"}) {
    std::ofstream(scratch.path() / name) << "old";
  }
  const SafetensorsSink sink(scratch.path() / "model.safetensors",
                             {{"a", "U8", {4}}, {"b", "U8", {4}}}, {4, {}});
  EXPECT_THAT(sink.notes(),
              testing::UnorderedElementsAre(HasSubstr("model.safetensors is"),
                                            HasSubstr("model-00001-of-00009.safetensors is")));
}

TEST(SafetensorsSink, TooManyOrTooFewBytesAreABugOfTheCaller) {
  const ScratchFolder scratch;
  SafetensorsSink sink(scratch.path() / "x.safetensors", {{"a", "U8", {4}}});
  EXPECT_THROW(sink.write(std::vector<std::byte>(5)), Bug);
  sink.write(std::vector<std::byte>(3));
  EXPECT_THROW(sink.commit(), Bug);
  EXPECT_THROW(sink.write(std::vector<std::byte>(2)), Bug);
  sink.write(std::vector<std::byte>(1));
  EXPECT_THROW(sink.write(std::vector<std::byte>(1)), Bug);
}

TEST(SafetensorsSink, NamesThatTheFormatCannotHoldAreRefused) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  for (const std::string name : {"__metadata__", "\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\x80"}) {
    EXPECT_EQ(test::problem_of<BadData>([&] {
                const SafetensorsSink sink(path, {{name, "U8", {1}}});
              }).code,
              "LS-5004");
  }
  EXPECT_THROW(SafetensorsSink(path, {{"a", "U8", {1}, "", {"\xff"}}}), BadData);
  EXPECT_THROW(SafetensorsSink(path, {{"a", "U8", {1}}, {"a", "U8", {1}}}), Bug);
  SafetensorsSink sink(path, {{std::string("é€😀\0\n\"", 12), "U8", {1}}});
  fill(sink, 1);
  sink.commit();
  EXPECT_EQ(SafetensorsSource(path).tensors()[0].name, std::string("é€😀\0\n\"", 12));
}

TEST(SafetensorsSink, AMissingFolderIsAnErrorOfTheSystem) {
  const ScratchFolder scratch;
  EXPECT_THROW(SafetensorsSink(scratch.path() / "none" / "x.safetensors", {{"a", "U8", {1}}}),
               fs::filesystem_error);
}

TEST(SafetensorsSink, AHeaderNearTheLimitOfReadersIsNoted) {
  const ScratchFolder scratch;
  const std::string long_name(91'000'000, 'n');
  const SafetensorsSink sink(scratch.path() / "x.safetensors", {{long_name, "U8", {1}}});
  EXPECT_THAT(sink.notes(), ElementsAre(HasSubstr("x.safetensors has a header of 91,000,")));
}

}  // namespace
}  // namespace lockstep::checkpoint
