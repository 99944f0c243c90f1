#include "lockstep/checkpoint/foreign/zip_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "lockstep/checkpoint/foreign/zip_archive.h"

namespace lockstep::checkpoint {
namespace {

class ZipWriterTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "x.zip"; }
  made::TestFolder folder_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(ZipWriterTest, WhatIsWrittenIsReadBack) {
  ZipWriter writer(path());
  writer.add("x/data.pkl", "pickle");
  writer.begin("x/data/0", 10);
  writer.write(bytes_of("01234"));
  EXPECT_EQ(writer.left(), 5U);
  writer.write(bytes_of(""));
  writer.write(bytes_of("56789"));
  writer.begin("x/data/1", 0);
  writer.add("x/version", "3\n");
  writer.commit();
  const InputFile file(path());
  const ZipArchive archive(file);
  ASSERT_EQ(archive.entries().size(), 4U);
  EXPECT_EQ(archive.read_all(*archive.find("x/data.pkl"), 100), "pickle");
  EXPECT_EQ(archive.read_all(*archive.find("x/data/0"), 100), "0123456789");
  EXPECT_EQ(archive.find("x/data/0")->crc32, 0xa684c7c6U);
  EXPECT_EQ(archive.find("x/data/1")->bytes, 0U);
}

TEST_F(ZipWriterTest, BytesBeginAtMultiplesOf64) {
  ZipWriter writer(path());
  for (int i = 0; i < 200; ++i) {
    writer.add(std::string(static_cast<std::size_t>(i + 1), 'n'),
               std::string(static_cast<std::size_t>(i), 'b'));
  }
  writer.commit();
  const InputFile file(path());
  const ZipArchive archive(file);
  for (const ZipEntry& entry : archive.entries()) {
    EXPECT_EQ(entry.offset % 64, 0U) << entry.name;
    archive.verify(entry);
  }
}

TEST_F(ZipWriterTest, AnArchiveOfNothingIsWhole) {
  ZipWriter writer(path());
  writer.commit();
  const InputFile file(path());
  EXPECT_EQ(ZipArchive(file).entries().size(), 0U);
}

TEST_F(ZipWriterTest, MoreThan65535EntriesAreCounted) {
  ZipWriter writer(path());
  for (int i = 0; i < 66'000; ++i) writer.begin(std::to_string(i), 0);
  writer.commit();
  const InputFile file(path());
  const ZipArchive archive(file);
  EXPECT_EQ(archive.entries().size(), 66'000U);
  EXPECT_NE(archive.find("65999"), nullptr);
}

TEST_F(ZipWriterTest, WithoutACommitNothingIsLeft) {
  {
    ZipWriter writer(path());
    writer.add("x", "data");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ZipWriterTest, OtherSizesThanAnnouncedAreABug) {
  ZipWriter writer(path());
  writer.begin("x", 2);
  EXPECT_THROW(writer.write(bytes_of("abc")), Bug);
  writer.write(bytes_of("a"));
  EXPECT_THROW(writer.begin("y", 1), Bug);
  EXPECT_THROW(writer.commit(), Bug);
}

/// An archive with an entry of more than 4 GB and one that begins behind it. The large one is a
/// hole in the file, which takes no room.
std::vector<zip::Record> write_large(const std::filesystem::path& path) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::vector<zip::Record> records{{"x/data/0", 0, (std::uint64_t{1} << 32U) + 5, 0},
                                   {"x/data/1", 0, 4, 0xadf3f363}};
  std::uint64_t at = 0;
  const auto put = [&](const std::string& text) {
    ASSERT_EQ(::pwrite(fd.get(), text.data(), text.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(text.size()));
    at += text.size();
  };
  put(zip::local_header(records[0]));
  at += records[0].bytes;
  put(zip::descriptor(records[0]));
  records[1].header = at;
  put(zip::local_header(records[1]));
  EXPECT_EQ(at % 64, 0U);
  put("data");
  put(zip::descriptor(records[1]));
  put(zip::directory(records, at));
  return records;
}

TEST_F(ZipWriterTest, EntriesAndOffsetsBeyondFourGigabytesAreReadBack) {
  const auto records = write_large(path());
  const InputFile file(path());
  const ZipArchive archive(file);
  ASSERT_EQ(archive.entries().size(), 2U);
  EXPECT_EQ(archive.entries()[0].bytes, records[0].bytes);
  EXPECT_EQ(archive.entries()[0].offset, 64U);
  EXPECT_GT(archive.entries()[1].offset, std::uint64_t{1} << 32U);
  EXPECT_EQ(archive.read_all(archive.entries()[1], 100), "data");
  std::string last(5, 'x');
  archive.read(archive.entries()[0], records[0].bytes - 5, std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(last, std::string(5, '\0'));
}

}  // namespace
}  // namespace lockstep::checkpoint
