#include "lockstep/checkpoint/foreign/dcp_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/dcp_folder.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

std::string content_of(const StoredTensor& tensor) {
  std::string bytes;
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    bytes += static_cast<char>(i * 7 + tensor.name.size());
  }
  return bytes;
}

void fill(DcpSink& sink, std::size_t part) {
  for (const StoredTensor& tensor : sink.order()) {
    const std::string bytes = content_of(tensor);
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      sink.write(std::as_bytes(std::span(bytes)).subspan(at, std::min(part, bytes.size() - at)));
    }
  }
}

class DcpSinkTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "new"; }
  made::TestFolder folder_;
};

const std::vector<StoredTensor> kTensors{
    {"z.weight", "F32", {3, 4}}, {"empty", "F32", {0, 7}},   {"a", "BF16", {2}},
    {"scalar", "I64", {}},       {"flags", "BOOL", {5}},     {"f8", "F8_E4M3", {3, 3}},
    {"u16", "U16", {2, 2}},      {"c", "C64", {2}},          {"large", "F64", {300, 2}},
    {"none", "F8_E5M2", {0}},    {"name \"q\" é", "U8", {1}}};

TEST_F(DcpSinkTest, WhatIsWrittenIsReadBack) {
  {
    DcpSink sink(path(), kTensors);
    fill(sink, 5);
    sink.commit();
  }
  const DcpSource source(path());
  ASSERT_EQ(source.tensors().size(), kTensors.size());
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    EXPECT_EQ(tensor.name, kTensors[i].name);
    EXPECT_EQ(tensor.dtype, kTensors[i].dtype);
    EXPECT_EQ(tensor.shape, kTensors[i].shape);
    std::string bytes(tensor.bytes(), '?');
    source.read(i, 0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, content_of(kTensors[i]));
  }
  EXPECT_EQ(source.facts().at("dcp_version"), "1.0.0");
}

TEST_F(DcpSinkTest, EachItemIsAWholeArchiveWithItsChecksums) {
  DcpSink sink(path(), kTensors);
  fill(sink, 1000);
  sink.commit();
  const InputFile file(path() / "__0_0.distcp");
  std::uint64_t end = 0;
  for (const DcpTensor& tensor : read_dcp_metadata(path()).tensors) {
    const DcpItem& item = tensor.chunks.at(0).item;
    EXPECT_EQ(item.offset, end);
    end = item.offset + item.bytes;
    const ZipArchive zip(file, item.offset, item.bytes);
    for (const ZipEntry& entry : zip.entries()) {
      EXPECT_NO_THROW(zip.verify(entry));
      EXPECT_EQ((entry.offset - item.offset) % zip::kAlignBytes, 0U) << entry.name;
    }
  }
  EXPECT_EQ(end, file.size_bytes());
}

TEST_F(DcpSinkTest, AliasesShareTheirItem) {
  DcpSink sink(path(), {{"a", "F32", {2}, "", {"b", "c"}}});
  fill(sink, 8);
  sink.commit();
  const DcpSource source(path());
  ASSERT_EQ(source.tensors().size(), 1U);
  EXPECT_THAT(source.tensors()[0].aliases, ::testing::ElementsAre("b", "c"));
}

TEST_F(DcpSinkTest, ALargePlaceIsWrittenAsEightBytes) {
  const std::vector<StoredTensor> tensors{{"a", "F32", {2}}};
  const std::vector<DcpItem> items{{"__0_0.distcp", 0x1'2345'6789, 1000}};
  const std::string pickle = dcp_metadata_pickle(tensors, items);
  folder_.write(".metadata", pickle);
  EXPECT_EQ(read_dcp_metadata(folder_.path()).tensors.at(0).chunks.at(0).item, items[0]);
}

TEST_F(DcpSinkTest, TypesThatPyTorchLacksNamesThatComeTwiceAndOldCheckpointsAreRefused) {
  std::filesystem::create_directory(path());
  folder_.write("new/.metadata", "x");
  try {
    const DcpSink sink(path(), {{"a", "F4", {2}}, {"b", "F32", {1}}, {"b", "F32", {1}}});
    FAIL();
  } catch (const UsageError& error) {
    ASSERT_EQ(error.problems().size(), 3U);
    EXPECT_THAT(error.problems()[0].what, HasSubstr("a is of type F4"));
    EXPECT_THAT(error.problems()[1].what, HasSubstr("two tensors are named b"));
    EXPECT_EQ(error.problems()[2].code, "LS-5020");
  }
}

TEST_F(DcpSinkTest, MoreOrFewerBytesThanAnnouncedAreABug) {
  const std::string bytes(9, 'x');
  DcpSink sink(path(), {{"a", "F32", {2}}});
  sink.write(std::as_bytes(std::span(bytes)).first(4));
  EXPECT_THROW(sink.commit(), Bug);
  EXPECT_THROW(sink.write(std::as_bytes(std::span(bytes))), Bug);
}

TEST_F(DcpSinkTest, WithoutACommitThereIsNoCheckpoint) {
  {
    DcpSink sink(path(), {{"a", "F32", {2}}});
    fill(sink, 8);
  }
  EXPECT_TRUE(std::filesystem::is_empty(path()));
}

TEST_F(DcpSinkTest, ACheckpointOfNoTensorsIsOne) {
  DcpSink(path(), {}).commit();
  EXPECT_TRUE(DcpSource(path()).tensors().empty());
}

}  // namespace
}  // namespace lockstep::checkpoint
