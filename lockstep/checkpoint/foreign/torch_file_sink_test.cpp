#include "lockstep/checkpoint/foreign/torch_file_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TorchFileSinkTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "x.pt"; }
  made::TestFolder folder_;
};

std::string content_of(const StoredTensor& tensor) {
  std::string bytes;
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    bytes += static_cast<char>(i * 7 + tensor.name.size());
  }
  return bytes;
}

/// Writes the tensors, `part` bytes at a time.
void write_file(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                std::size_t part) {
  TorchFileSink sink(path, tensors);
  for (const StoredTensor& tensor : sink.order()) {
    const std::string bytes = content_of(tensor);
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      sink.write(std::as_bytes(std::span(bytes)).subspan(at, std::min(part, bytes.size() - at)));
    }
  }
  sink.commit();
}

TEST_F(TorchFileSinkTest, WhatIsWrittenIsReadBack) {
  const std::vector<StoredTensor> tensors{
      {"z.weight", "F32", {3, 4}},   {"a", "BF16", {2}},       {"scalar", "I64", {}},
      {"empty", "F32", {0, 7}},      {"last", "BOOL", {5}},    {"f8", "F8_E4M3", {3, 3}},
      {"u16", "U16", {2, 2}},        {"c", "C64", {2}},        {"f64", "F64", {300, 2}},
      {"e8", "F8_E8M0", {1}},        {"none", "F8_E5M2", {0}}, {"i8", "I8", {1, 1, 1, 1, 1}},
      {"name \"q\" \n é", "U8", {1}}};
  write_file(path(), tensors, 5);
  const TorchFileSource source(path());
  ASSERT_EQ(source.tensors().size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    EXPECT_EQ(tensor.name, tensors[i].name);
    EXPECT_EQ(tensor.dtype, tensors[i].dtype);
    EXPECT_EQ(tensor.shape, tensors[i].shape);
    std::string bytes(tensor.bytes(), '?');
    source.read(i, 0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, content_of(tensors[i])) << tensor.name;
  }
}

TEST_F(TorchFileSinkTest, AliasesShareAStorage) {
  write_file(path(), {{"head", "F32", {2, 2}, "", {"embedding", "tied"}}, {"b", "F32", {1}}}, 100);
  const TorchFileSource source(path());
  ASSERT_EQ(source.tensors().size(), 2U);
  EXPECT_THAT(source.tensors()[0].aliases, ElementsAre("embedding", "tied"));
  EXPECT_EQ(source.archive().root().entries(), 4U);
}

TEST_F(TorchFileSinkTest, TheArchiveIsThatOfPyTorch) {
  write_file(path(), {{"w", "F32", {3}}, {"b", "F32", {1}}}, 100);
  const TorchFileSource source(path());
  std::vector<std::string> names;
  for (const ZipEntry& entry : source.archive().zip().entries()) {
    names.push_back(entry.name);
    source.archive().zip().verify(entry);
    EXPECT_EQ(entry.offset % 64, 0U) << entry.name;
  }
  EXPECT_THAT(names,
              ElementsAre("archive/data.pkl", "archive/.format_version",
                          "archive/.storage_alignment", "archive/byteorder", "archive/data/0",
                          "archive/data/1", "archive/version", "archive/.data/serialization_id"));
  const ZipArchive& zip = source.archive().zip();
  EXPECT_EQ(zip.read_all(*zip.find("archive/version"), 9), "3\n");
  EXPECT_EQ(zip.read_all(*zip.find("archive/.storage_alignment"), 9), "64");
  EXPECT_EQ(zip.read_all(*zip.find("archive/.data/serialization_id"), 99).size(), 40U);
}

TEST_F(TorchFileSinkTest, TheSameTensorsGiveTheSameFile) {
  const std::vector<StoredTensor> tensors{{"w", "F32", {3}}, {"b", "F16", {4}}};
  write_file(path(), tensors, 1);
  write_file(folder_.path() / "y.pt", tensors, 100);
  const auto text = [](const std::filesystem::path& file) { return read_text_file(file, 1 << 20); };
  EXPECT_EQ(text(path()), text(folder_.path() / "y.pt"));
}

TEST_F(TorchFileSinkTest, NoTensorAtAllIsAFileToo) {
  write_file(path(), {}, 1);
  EXPECT_EQ(TorchFileSource(path()).tensors().size(), 0U);
}

TEST_F(TorchFileSinkTest, LargeNumbersAreWrittenInFull) {
  const std::vector<StoredTensor> tensors{
      {"a", "U8", {255}}, {"b", "U8", {256}}, {"c", "U8", {65536}}, {"d", "U8", {0, INT64_MAX}}};
  write_file(path(), tensors, 100'000);
  const TorchFileSource source(path());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(source.tensors()[i].shape, tensors[i].shape);
}

TEST_F(TorchFileSinkTest, TypesThatPyTorchDoesNotHaveAreRefusedTogether) {
  try {
    TorchFileSink sink(
        path(), {{"a", "F4", {2}}, {"b", "F32", {1}}, {"c", "F6_E2M3", {4}}, {"b", "F32", {1}}});
    FAIL();
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 3U);
    EXPECT_THAT(error.problems()[0].what, HasSubstr("a is of type F4"));
    EXPECT_THAT(error.problems()[1].what, HasSubstr("F6_E2M3"));
    EXPECT_THAT(error.problems()[2].what, HasSubstr("two tensors are named b"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TorchFileSinkTest, MoreOrFewerBytesThanAnnouncedAreABug) {
  const std::string bytes(9, 'x');
  TorchFileSink sink(path(), {{"a", "F32", {2}}});
  sink.write(std::as_bytes(std::span(bytes)).first(4));
  EXPECT_THROW(sink.commit(), Bug);
  EXPECT_THROW(sink.write(std::as_bytes(std::span(bytes))), Bug);
}

TEST_F(TorchFileSinkTest, WithoutACommitNothingIsLeft) {
  { TorchFileSink sink(path(), {{"a", "F32", {2}}}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace lockstep::checkpoint
