#include "lockstep/data/formats/byte_source.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <numeric>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

std::vector<std::uint8_t> ramp(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

std::span<const std::byte> bytes_of(const std::vector<std::uint8_t>& values) {
  return std::as_bytes(std::span(values));
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Fault>
Problem problem_of_reading(const std::string& path) {
  return test::problem_of<Fault>([&] { (void)read_all(*open_file(path)); });
}

TEST(ByteSource, ReadsBackAPlainFileAndKnowsWhatIsLeft) {
  const test::ScratchFolder scratch;
  const auto written = ramp(1000);
  write_file(scratch.file("a.bin"), bytes_of(written));
  const auto source = open_file(scratch.file("a.bin"));
  EXPECT_FALSE(source->compressed());
  EXPECT_EQ(source->at_most_bytes(), 1000U);
  std::array<std::byte, 10> first{};
  EXPECT_EQ(source->read(first), 10U);
  EXPECT_EQ(source->at_most_bytes(), 990U);
  EXPECT_EQ(source->offset_bytes(), 10U);
  EXPECT_EQ(read_all(*source), std::vector<std::uint8_t>(written.begin() + 10, written.end()));
}

TEST(ByteSource, InflatesGzipWhateverTheNameSays) {
  const test::ScratchFolder scratch;
  const auto written = ramp(3'000'000);
  write_file(scratch.file("a.gz"), bytes_of(written));
  EXPECT_LT(std::filesystem::file_size(scratch.file("a.gz")), written.size());
  std::filesystem::rename(scratch.file("a.gz"), scratch.file("a"));
  const auto source = open_file(scratch.file("a"));
  EXPECT_TRUE(source->compressed());
  EXPECT_GE(source->at_most_bytes(), written.size());
  EXPECT_EQ(read_all(*source), written);
}

TEST(ByteSource, AnEmptyFileHasNoBytes) {
  const test::ScratchFolder scratch;
  EXPECT_TRUE(read_all(*open_file(scratch.write("empty", ""))).empty());
}

TEST(ByteSource, StopsAtTheLimitAskedFor) {
  const auto values = ramp(100);
  MemorySource source(bytes_of(values));
  EXPECT_EQ(read_up_to(source, 30).size(), 30U);
  EXPECT_EQ(read_up_to(source, 300).size(), 70U);
  EXPECT_TRUE(read_up_to(source, 300).empty());
}

TEST(ByteSource, AGzipFileThatBreaksOffIsBadDataAtEveryLength) {
  const test::ScratchFolder scratch;
  write_file(scratch.file("whole.gz"), bytes_of(ramp(5000)));
  const std::string whole = content(scratch.file("whole.gz"));
  for (std::size_t length = 18; length < whole.size(); length += 7) {
    const std::string path = scratch.write("cut.gz", whole.substr(0, length));
    const Problem problem = problem_of_reading<BadData>(path);
    EXPECT_EQ(problem.code, "LS-2005") << length;
    EXPECT_NE(problem.what.find("break off"), std::string::npos) << problem.what;
  }
}

TEST(ByteSource, AFlippedBitFailsTheChecksumOfGzip) {
  const test::ScratchFolder scratch;
  write_file(scratch.file("whole.gz"), bytes_of(ramp(5000)));
  std::string damaged = content(scratch.file("whole.gz"));
  damaged[damaged.size() - 6] ^= 1;  // in the CRC
  const Problem problem = problem_of_reading<BadData>(scratch.write("bad.gz", damaged));
  EXPECT_EQ(problem.code, "LS-2005");
  EXPECT_EQ(problem.what.find("<fd"), std::string::npos) << "the file has a name: " << problem.what;
  EXPECT_EQ(problem.what.find("after 0 "), std::string::npos) << problem.what;
}

TEST(ByteSource, AFlippedByteIsNotTakenForAShortCopy) {
  const test::ScratchFolder scratch;
  write_file(scratch.file("whole.gz"), bytes_of(ramp(5000)));
  const std::string whole = content(scratch.file("whole.gz"));
  for (std::size_t at = 10; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const Problem problem = problem_of_reading<BadData>(scratch.write("bad.gz", damaged));
    EXPECT_NE(problem.what.find("damaged"), std::string::npos) << at << ": " << problem.what;
    EXPECT_EQ(problem.what.find("should have more"), std::string::npos) << problem.what;
  }
}

TEST(ByteSource, AMissingFileOfADebianPackageNamesThePackage) {
  const Problem known = problem_of_reading<EnvironmentFault>(
      "/usr/share/datasets/fashion-mnist/no-such-images-idx3-ubyte.gz");
  EXPECT_EQ(known.code, "LS-2001");
  EXPECT_EQ(known.fix, "apt-get install dataset-fashion-mnist");
  const Problem unknown = problem_of_reading<EnvironmentFault>("/no/such/file");
  EXPECT_EQ(unknown.fix.find("apt-get"), std::string::npos);
}

TEST(ByteSource, AFolderIsNotAFile) {
  const test::ScratchFolder scratch;
  EXPECT_EQ(problem_of_reading<EnvironmentFault>(scratch.path().string()).code, "LS-2001");
}

}  // namespace
}  // namespace lockstep::data
