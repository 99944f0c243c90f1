#include "lockstep/checkpoint/foreign/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using std::string_literals::operator""s;
using made::ZipPart;
using ::testing::HasSubstr;

class ZipArchiveTest : public ::testing::Test {
 protected:
  InputFile file_of(const std::string& bytes) const {
    return InputFile(folder_.write("x.pt", bytes));
  }

  /// What the reader says about this file; empty when it takes it.
  std::string fault_of(const std::string& bytes) const {
    const InputFile file = file_of(bytes);
    try {
      const ZipArchive archive(file);
      return "";
    } catch (const BadData& error) {
      EXPECT_EQ(error.problems()[0].code, "LS-5012");
      EXPECT_THAT(error.problems()[0].where, HasSubstr("x.pt"));
      return error.problems()[0].what;
    }
  }

  made::TestFolder folder_;
};

const std::vector<ZipPart>& three_parts() {
  static const std::vector<ZipPart> parts{
      {"x/data.pkl", "pickle"}, {"x/data/0", std::string(100, 'a')}, {"x/data/1", ""}};
  return parts;
}

std::string replaced(std::string bytes, std::size_t at, const std::string& by) {
  return bytes.replace(at, by.size(), by);
}

/// Offset of the entry's place in the directory.
std::size_t central_of(const std::string& zip, const std::string& name) {
  return zip.rfind(name) - 46;
}

TEST_F(ZipArchiveTest, EntriesAreFoundByNameAndReadInParts) {
  const InputFile file = file_of(made::zip_of(three_parts()));
  const ZipArchive archive(file);
  ASSERT_EQ(archive.entries().size(), 3U);
  const ZipEntry* entry = archive.find("x/data/0");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->bytes, 100U);
  EXPECT_EQ(archive.read_all(*archive.find("x/data.pkl"), 100), "pickle");
  EXPECT_EQ(archive.read_all(*archive.find("x/data/1"), 100), "");
  std::string part(3, ' ');
  archive.read(*entry, 97, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "aaa");
  EXPECT_EQ(archive.find("x/data/2"), nullptr);
  EXPECT_EQ(archive.find("../x/data/0"), nullptr);
}

TEST_F(ZipArchiveTest, AnArchiveWithinAFileIsReadInItsRange) {
  const std::string zip = made::zip_of(three_parts());
  const InputFile file = file_of("before" + zip + zip + "after");
  const ZipArchive archive(file, 6 + zip.size(), zip.size());
  EXPECT_EQ(archive.read_all(*archive.find("x/data.pkl"), 100), "pickle");
  EXPECT_THAT(archive.where(), HasSubstr("archive at byte "));
  EXPECT_THROW(ZipArchive(file, 6, zip.size() - 1), BadData);
  EXPECT_THROW(ZipArchive(file, 7, zip.size()), BadData);
  EXPECT_THROW(ZipArchive(file, 6, file.size_bytes()), BadData);
  EXPECT_THROW(ZipArchive(file, ~std::uint64_t{0}, 2), BadData);
}

TEST_F(ZipArchiveTest, SizesOf64BitsAreRead) {
  const InputFile file =
      file_of(made::zip_of({{.name = "x/data.pkl", .bytes = "pickle", .wide = true}}));
  const ZipArchive archive(file);
  EXPECT_EQ(archive.read_all(archive.entries()[0], 100), "pickle");
}

TEST_F(ZipArchiveTest, AnEmptyArchiveOrACommentIsFine) {
  EXPECT_EQ(fault_of(made::zip_of({})), "");
  std::string zip = made::zip_of(three_parts());
  zip.replace(zip.size() - 2, 2, made::le(5, 2));
  EXPECT_EQ(fault_of(zip + "PK\5\6!"), "");  // a comment that looks like a record
  EXPECT_NE(fault_of(zip + "four"), "");
}

TEST_F(ZipArchiveTest, EveryTruncationIsFound) {
  const std::string zip = made::zip_of(three_parts());
  for (std::size_t bytes = 0; bytes < zip.size(); ++bytes) {
    EXPECT_NE(fault_of(zip.substr(0, bytes)), "") << bytes;
  }
}

TEST_F(ZipArchiveTest, ACutFileSaysUpToWhereItIsWhole) {
  const std::string zip = made::zip_of({{"x/data.pkl", "pickle"},
                                        {"x/data/3", std::string(1000, 'a')},
                                        {"x/data/4", std::string(1000, 'b')}});
  EXPECT_EQ(
      fault_of(zip.substr(0, 1234)),
      "truncated: no end-of-directory record; 1,234 bytes, the last complete entry is x/data/3");
  EXPECT_THAT(fault_of(zip.substr(0, 500)), HasSubstr("the last complete entry is x/data.pkl"));
  EXPECT_THAT(fault_of(zip.substr(0, 30)), HasSubstr("no entry is complete"));
  EXPECT_THAT(fault_of(zip.substr(0, zip.size() - 1)), HasSubstr("entry is x/data/4"));
}

TEST_F(ZipArchiveTest, ACutFileWithSizesBehindTheBytesIsWalkedToo) {
  const auto entry = [](const std::string& name, const std::string& bytes, bool wide) {
    const std::size_t width = wide ? 8 : 4;
    return "PK\3\4" + made::le(20, 2) + made::le(8, 2) + made::le(0, 18) +
           made::le(name.size(), 2) + made::le(0, 2) + name + bytes + "PK\7\10" + made::le(0, 4) +
           made::le(bytes.size(), width) + made::le(bytes.size(), width);
  };
  const std::string decoy = "PK\7\10" + std::string(40, 'z') + "PK\3\4";
  const std::string file = entry("a", decoy, false) + entry("b", std::string(3'000'000, 'q'), true);
  EXPECT_THAT(fault_of(file + entry("c", "cut", false).substr(0, 34)), HasSubstr("entry is b"));
  EXPECT_THAT(fault_of(file.substr(0, 2'000'000)), HasSubstr("entry is a"));
}

TEST_F(ZipArchiveTest, AFileThatIsSomethingElseIsNamed) {
  const auto expect = [&](const std::string& bytes, const std::string& kind) {
    EXPECT_THAT(fault_of(bytes), HasSubstr(kind)) << bytes.substr(0, 20);
  };
  expect("", "empty");
  expect(std::string(100'000, '\0'), "zeros");
  expect("\n <!DOCTYPE html><html>", "HTML");
  expect("<HTML><body>404</body>", "HTML");
  expect("<?xml version=\"1.0\"?><Error/>", "XML");
  expect("\x1f\x8b\x08" + std::string(50, 'x'), "gzip");
  expect("\x28\xb5\x2f\xfd" + std::string(50, 'x'), "zstd");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git-lfs");
  expect("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "before PyTorch 1.6");
  expect("\x80\x04\x95\x0d\0\0\0\0\0\0\0\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02"s,
         "before PyTorch 1.6");
  expect("\x80\x02}q\x01.", "bare pickle");
  expect("name" + std::string(253, '\0') + "ustar" + std::string(250, '\0'), "tar");
  expect(made::le(2, 8) + "{\"a\":{}}", "safetensors");
  expect("{\"weight_map\": {}}", "JSON");
  expect("GGUF\3\0\0\0"s, "GGUF");
  expect("\x89HDF\r\n\x1a\n", "HDF5");
  expect("\x93NUMPY\1\0"s, "numpy");
  expect("whatever this is", "nothing known");
  expect("P", "nothing known");
}

TEST_F(ZipArchiveTest, ADirectoryThatLeadsOutOfTheFileIsRefused) {
  const std::string zip = made::zip_of(three_parts());
  const std::size_t end = zip.size() - 22;
  for (const std::uint64_t value : {0ULL, 1ULL, 0x7fffffffULL, 0xfffffffeULL, 0xffffffffULL}) {
    EXPECT_NE(fault_of(replaced(zip, end + 12, made::le(value, 4))), "") << value;  // its bytes
    EXPECT_NE(fault_of(replaced(zip, end + 16, made::le(value, 4))), "") << value;  // its place
  }
  for (const std::uint64_t count : {0, 2, 4, 0xffff}) {
    EXPECT_NE(fault_of(replaced(zip, end + 10, made::le(count, 2))), "") << count;
  }
}

TEST_F(ZipArchiveTest, A64BitEndRecordIsNotTrustedEither) {
  const std::string zip = made::zip_of(three_parts());
  const std::size_t end = zip.size() - 22;
  const std::size_t begin = made::zip_of(three_parts()).find("PK\1\2");
  const auto wide = [&](std::uint64_t count, std::uint64_t bytes, std::uint64_t at,
                        std::uint64_t record) {
    return zip.substr(0, end) + "PK\6\6" + made::le(44, 8) + made::le(0, 12) + made::le(count, 8) +
           made::le(count, 8) + made::le(bytes, 8) + made::le(at, 8) + "PK\6\7" + made::le(0, 4) +
           made::le(record, 8) + made::le(1, 4) + zip.substr(end);
  };
  EXPECT_EQ(fault_of(wide(3, end - begin, begin, end)), "");
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_NE(fault_of(wide(3, end - begin, begin, huge)), "");
  EXPECT_NE(fault_of(wide(3, end - begin, begin, huge - 20)), "");
  EXPECT_NE(fault_of(wide(3, end - begin, begin, 0)), "");
  EXPECT_NE(fault_of(wide(3, huge, begin, end)), "");
  EXPECT_NE(fault_of(wide(3, end - begin, huge, end)), "");
  EXPECT_NE(fault_of(wide(3, end - begin + 1, begin - 1, end)), "");
  EXPECT_NE(fault_of(wide(huge, end - begin, begin, end)), "");
  EXPECT_NE(fault_of(wide(4, end - begin, begin, end)), "");
}

TEST_F(ZipArchiveTest, AnEntryThatLeadsOutOfTheFileIsRefused) {
  const auto one = [](std::uint64_t bytes, std::uint64_t header, bool wide) {
    return made::zip_of(
        {{.name = "x", .bytes = "data", .wide = wide, .claimed_bytes = bytes, .header = header}});
  };
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_EQ(fault_of(one(4, 0, false)), "");
  EXPECT_EQ(fault_of(one(4, 0, true)), "");
  for (const std::uint64_t bytes : {5ULL, 1000ULL, 0xfffffffeULL}) {
    EXPECT_NE(fault_of(one(bytes, 0, false)), "") << bytes;
  }
  for (const std::uint64_t bytes : {huge - 31, huge - 1, huge >> 1U, huge >> 20U, huge >> 60U}) {
    EXPECT_NE(fault_of(one(bytes, 0, true)), "") << bytes;
    EXPECT_NE(fault_of(one(4, bytes, true)), "") << bytes;
  }
  EXPECT_NE(fault_of(one(4, 1, false)), "");
  EXPECT_NE(fault_of(one(4, 35, false)), "");
  EXPECT_NE(fault_of(replaced(one(4, 0, false), 28, made::le(0xffff, 2))), "");  // its extra field
  EXPECT_NE(fault_of(replaced(one(4, 0, false), 26, made::le(0xffff, 2))), "");  // its name
}

TEST_F(ZipArchiveTest, A64BitFieldThatIsMissingIsRefused) {
  std::string zip = made::zip_of({{.name = "x", .bytes = "data"}});
  EXPECT_THAT(fault_of(replaced(zip, central_of(zip, "x") + 24, "\xff\xff\xff\xff")),
              HasSubstr("64-bit"));
  EXPECT_THAT(fault_of(replaced(zip, central_of(zip, "x") + 42, "\xff\xff\xff\xff")),
              HasSubstr("64-bit"));
}

TEST_F(ZipArchiveTest, TwoEntriesOfOneNameAreRefused) {
  EXPECT_THAT(fault_of(made::zip_of({{"x", "data"}, {"x", "more"}})), HasSubstr("two entries"));
}

TEST_F(ZipArchiveTest, EntriesThatOverlapAreRefused) {
  // Both are read from the first: a small file that claims to hold many large entries.
  EXPECT_NE(fault_of(made::zip_of({{"x", "data"}, {.name = "x", .bytes = "data", .header = 0}})),
            "");
  const std::string inner = made::zip_of({{"b", "data"}}).substr(0, 35);
  EXPECT_THAT(fault_of(made::zip_of({{"a", inner}, {.name = "b", .bytes = "data", .header = 31}})),
              HasSubstr("overlaps"));
}

TEST_F(ZipArchiveTest, HeadersMustAgreeWithTheDirectory) {
  const std::string zip = made::zip_of(three_parts());
  EXPECT_NE(fault_of(replaced(zip, 0, "PK\3\5")), "");
  EXPECT_NE(fault_of(replaced(zip, 30, "y/data.pkl")), "");
  EXPECT_NE(fault_of(replaced(zip, central_of(zip, "x/data/0"), "PK\1\3")), "");
  EXPECT_NE(fault_of(replaced(zip, central_of(zip, "x/data/0") + 20, made::le(99, 4))), "");
  EXPECT_NE(fault_of(replaced(zip, central_of(zip, "x/data/0") + 28, made::le(9, 2))), "");
  EXPECT_NE(fault_of(replaced(zip, central_of(zip, "x/data/0") + 30, made::le(0xffff, 2))), "");
  EXPECT_NE(fault_of(replaced(zip, central_of(zip, "x/data/1") + 32, made::le(1, 2))), "");
  EXPECT_NE(fault_of("junk" + zip), "");
  EXPECT_NE(fault_of(zip + "junk"), "");
}

TEST_F(ZipArchiveTest, ANameThatIsNotUtf8IsRefusedAndAnyOtherIsNoPath) {
  EXPECT_THAT(fault_of(made::zip_of({{"\xff", "data"}})), HasSubstr("UTF-8"));
  const InputFile file =
      file_of(made::zip_of({{"../../etc/x", "a"}, {"/etc/y", "b"}, {"C:\\z\0"s, "c"}}));
  const ZipArchive archive(file);
  EXPECT_EQ(archive.read_all(*archive.find("../../etc/x"), 9), "a");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(ZipArchiveTest, ACompressedEntryIsRefusedWhenItIsRead) {
  const InputFile file = file_of(made::zip_of({{.name = "x", .bytes = "data", .method = 8}}));
  const ZipArchive archive(file);
  EXPECT_FALSE(archive.entries()[0].stored);
  try {
    (void)archive.read_all(archive.entries()[0], 100);
    FAIL();
  } catch (const BadData& error) {
    EXPECT_THAT(error.problems()[0].what, HasSubstr("compressed"));
  }
  try {
    (void)archive.read_all(archive.entries()[0], 3);  // not "too large" first
    FAIL();
  } catch (const BadData& error) {
    EXPECT_THAT(error.problems()[0].what, HasSubstr("compressed"));
  }
}

TEST_F(ZipArchiveTest, AnEncryptedEntryIsRefused) {
  EXPECT_THAT(fault_of(made::zip_of({{.name = "x", .bytes = "data", .flags = 1}})),
              HasSubstr("encrypted"));
}

TEST_F(ZipArchiveTest, AChangedByteIsFoundByTheChecksum) {
  std::string zip = made::zip_of(three_parts());
  zip[zip.find("aaa") + 50] = 'b';
  zip[zip.find("pickle")] = 'P';
  const InputFile file = file_of(zip);
  const ZipArchive archive(file);
  try {
    archive.verify(*archive.find("x/data/0"));
    FAIL();
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5005");
    EXPECT_THAT(error.problems()[0].what, HasSubstr("x/data/0"));
  }
  EXPECT_THROW((void)archive.read_all(*archive.find("x/data.pkl"), 100), BadData);
  archive.verify(*archive.find("x/data/1"));
}

TEST_F(ZipArchiveTest, AChecksumOfZeroMeansNone) {
  std::string zip = made::zip_of({{"x", "data"}});
  zip.replace(central_of(zip, "x") + 16, 4, made::le(0, 4));
  const InputFile file = file_of(zip);
  const ZipArchive archive(file);
  EXPECT_EQ(archive.read_all(archive.entries()[0], 4), "data");
  EXPECT_THROW((void)archive.read_all(archive.entries()[0], 3), BadData);
}

TEST_F(ZipArchiveTest, AnyByteInPlaceOfAnotherIsTakenOrRefused) {
  const std::string zip = made::zip_of({{"a", "data"}, {.name = "b", .bytes = "", .wide = true}});
  for (std::size_t at = 0; at < zip.size(); ++at) {
    for (const char byte : {'\0', '\x01', '\x7f', '\x80', '\xff', static_cast<char>(zip[at] ^ 4)}) {
      (void)fault_of(replaced(zip, at, std::string(1, byte)));
    }
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
