#include "lockstep/data/formats/idx.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

IdxArray parse(const Bytes& bytes) {
  MemorySource source(std::as_bytes(std::span(bytes)), "array.idx");
  return parse_idx(source);
}

using test::problem_of;

Problem problem_of_parsing(const Bytes& bytes) {
  return problem_of<BadData>([&] { (void)parse(bytes); });
}

// Header of an array of unsigned bytes.
Bytes header(std::initializer_list<std::uint32_t> dims) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
  }
  return bytes;
}

Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Writes `count` images of 2 x 3 pixels and `labels` labels under the standard names.
void write_pair(const test::ScratchFolder& scratch, const std::string& name,
                const std::string& suffix, std::int64_t count, std::int64_t labels) {
  Bytes pixels(static_cast<std::size_t>(count * 6));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  write_idx(scratch.file(name + "-images-idx3-ubyte" + suffix), {{count, 2, 3}, pixels});
  write_idx(scratch.file(name + "-labels-idx1-ubyte" + suffix),
            {{labels}, Bytes(static_cast<std::size_t>(labels), 7)});
}

TEST(Idx, ParsesDimensionsAndValues) {
  const IdxArray array = parse(header({2, 3}) + Bytes{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(array.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array.values, (Bytes{1, 2, 3, 4, 5, 6}));
}

TEST(Idx, AnArrayWithoutElementsIsValid) { EXPECT_TRUE(parse(header({0, 28, 28})).values.empty()); }

TEST(Idx, WritingAndReadingGiveTheSameArrayPlainAndPacked) {
  const test::ScratchFolder scratch;
  const IdxArray array{{2, 2}, {9, 8, 7, 6}};
  for (const char* name : {"a.idx", "a.idx.gz"}) {
    write_idx(scratch.file(name), array);
    const IdxArray back = parse_idx(*open_file(scratch.file(name)));
    EXPECT_EQ(back.dims, array.dims) << name;
    EXPECT_EQ(back.values, array.values) << name;
  }
}

TEST(Idx, EveryShorterFileIsBadDataWithBothLengths) {
  const Bytes whole = header({2, 3}) + Bytes{1, 2, 3, 4, 5, 6};
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Problem problem = problem_of_parsing(Bytes(whole.begin(), whole.begin() + length));
    EXPECT_EQ(problem.code, "LS-2002") << length;
    EXPECT_NE(problem.what.find(" " + std::to_string(length)), std::string::npos) << problem.what;
    const char* const announced =
        length < 12 ? "the header announces" : "announces 18 bytes in all";
    EXPECT_NE(problem.what.find(announced), std::string::npos) << problem.what;
    EXPECT_NE(problem.where.find("array.idx: offset "), std::string::npos);
  }
}

TEST(Idx, BytesAfterTheLastElementAreBadData) {
  const Problem problem = problem_of_parsing(header({2}) + Bytes{1, 2, 3});
  EXPECT_EQ(problem.code, "LS-2002");
  EXPECT_EQ(problem.where, "array.idx: offset 10");
}

TEST(Idx, AHeaderThatAnnouncesTerabytesIsRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(problem_of_parsing(header({0xffffffff, 1000})).code, "LS-2002");
  const Problem overflow =
      problem_of_parsing(header({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}));
  EXPECT_EQ(overflow.code, "LS-2003");
  EXPECT_NE(overflow.what.find("overflows"), std::string::npos);
}

TEST(Idx, APackedHeaderThatAnnouncesTooMuchIsRefused) {
  const test::ScratchFolder scratch;
  const Bytes bytes = header({0xffffffff}) + Bytes(1000, 1);
  write_file(scratch.file("big.gz"), std::as_bytes(std::span(bytes)));
  const auto parse_big = [&] { (void)parse_idx(*open_file(scratch.file("big.gz"))); };
  EXPECT_EQ(problem_of<BadData>(parse_big).code, "LS-2002");
}

TEST(Idx, OtherFilesAreNamedAsSuch) {
  EXPECT_EQ(problem_of_parsing({'<', '!', 'D', 'O'}).code, "LS-2003");
  const Problem floats = problem_of_parsing({0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0});
  EXPECT_NE(floats.what.find("element type 13"), std::string::npos);
  EXPECT_EQ(problem_of_parsing({0, 0, 8, 0}).code, "LS-2003");
  EXPECT_EQ(problem_of_parsing({0, 0, 8, 200}).code, "LS-2003");
}

TEST(IdxImages, FindsTheStandardNamesInAFolder) {
  const test::ScratchFolder scratch;
  write_pair(scratch, "train", ".gz", 4, 4);
  write_pair(scratch, "t10k", "", 2, 2);
  const LabelledImages train = read_idx_images(scratch.path().string(), IdxPart::train);
  EXPECT_EQ(train.count, 4);
  EXPECT_EQ(train.height, 2);
  EXPECT_EQ(train.width, 3);
  EXPECT_EQ(train.pixels[7], 7);
  EXPECT_EQ(train.labels, Bytes(4, 7));
  EXPECT_EQ(read_idx_images(scratch.path().string(), IdxPart::test).count, 2);
}

TEST(IdxImages, DerivesTheLabelsFileFromTheImagesFile) {
  const test::ScratchFolder scratch;
  write_pair(scratch, "letters", "", 3, 3);
  EXPECT_EQ(read_idx_images(scratch.file("letters-images-idx3-ubyte"), IdxPart::test).count, 3);
  const auto other_name = [&] { (void)read_idx_images(scratch.file("x.bin"), IdxPart::train); };
  EXPECT_EQ(problem_of<EnvironmentFault>(other_name).code, "LS-2001") << "told first: not there";
  std::filesystem::copy_file(scratch.file("letters-images-idx3-ubyte"), scratch.file("x.bin"));
  EXPECT_EQ(problem_of<UsageError>(other_name).code, "LS-2003");
}

TEST(IdxImages, LabelsAndImagesMustBeEquallyMany) {
  const test::ScratchFolder scratch;
  write_pair(scratch, "train", "", 3, 2);
  const auto read = [&] { (void)read_idx_images(scratch.path().string(), IdxPart::train); };
  EXPECT_NE(problem_of<BadData>(read).what.find("2 labels for 3 images"), std::string::npos);
}

TEST(IdxImages, AnArrayWithOtherDimensionsIsNoImageFile) {
  const test::ScratchFolder scratch;
  write_pair(scratch, "train", "", 3, 3);
  std::filesystem::copy_file(scratch.file("train-labels-idx1-ubyte"),
                             scratch.file("train-images-idx3-ubyte"),
                             std::filesystem::copy_options::overwrite_existing);
  const auto read = [&] { (void)read_idx_images(scratch.path().string(), IdxPart::train); };
  EXPECT_EQ(problem_of<BadData>(read).code, "LS-2003");
}

TEST(IdxImages, AMissingFolderOfAPackageNamesThePackage) {
  const auto read = [] {
    (void)read_idx_images("/usr/share/datasets/fashion-mnist/nowhere/x-images-idx3",
                          IdxPart::train);
  };
  EXPECT_EQ(problem_of<EnvironmentFault>(read).fix, "apt-get install dataset-fashion-mnist");
}

TEST(IdxImages, ReadsDebiansFashionMnist) {
  const LabelledImages test = read_idx_images("/usr/share/datasets/fashion-mnist", IdxPart::test);
  EXPECT_EQ(test.count, 10000);
  EXPECT_EQ(test.pixels_per_image(), 28 * 28);
  EXPECT_EQ(test.labels[0], 9);  // an ankle boot
}

}  // namespace
}  // namespace lockstep::data
