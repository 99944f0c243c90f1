#include "lockstep/data/formats/cifar.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using test::problem_of;

// Image i has label `first_label` + i and all pixels i, but for a first pixel of 200.
LabelledImages make_images(std::int64_t count, int first_label) {
  LabelledImages images;
  images.count = count;
  images.channels = 3;
  images.height = images.width = 32;
  for (std::int64_t i = 0; i < count; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(first_label + i));
    images.pixels.push_back(200);
    images.pixels.insert(images.pixels.end(), kCifarPixels - 1, static_cast<std::uint8_t>(i));
  }
  return images;
}

TEST(Cifar, WritingAndReadingGiveTheSameImagesInBothKinds) {
  const test::ScratchFolder scratch;
  for (const CifarKind kind : {CifarKind::cifar10, CifarKind::cifar100}) {
    const LabelledImages written = make_images(3, static_cast<int>(cifar_classes(kind)) - 3);
    write_cifar(scratch.file("some.bin"), kind, written);
    const LabelledImages back = read_cifar(scratch.file("some.bin"), CifarPart::train);
    EXPECT_EQ(back.count, 3);
    EXPECT_EQ(back.pixels_per_image(), kCifarPixels);
    EXPECT_EQ(back.labels, written.labels);
    EXPECT_EQ(back.pixels, written.pixels);
  }
}

TEST(Cifar, ACompressedFileIsReadButNotCounted) {
  const test::ScratchFolder scratch;
  const LabelledImages written = make_images(3, 2);
  write_cifar(scratch.file("some.gz"), CifarKind::cifar10, written);  // by its name
  std::filesystem::rename(scratch.file("some.gz"), scratch.file("some.bin"));
  EXPECT_EQ(count_cifar_images(scratch.file("some.bin"), CifarPart::train), 0);
  EXPECT_EQ(read_cifar(scratch.file("some.bin"), CifarPart::train).labels, written.labels);
}

TEST(Cifar, AFolderOfCifar10HasFiveTrainingFilesInOrder) {
  const test::ScratchFolder scratch;
  for (int i = 1; i <= 5; ++i) {
    write_cifar(scratch.file("data_batch_" + std::to_string(i) + ".bin"), CifarKind::cifar10,
                make_images(1, i));
  }
  write_cifar(scratch.file("test_batch.bin"), CifarKind::cifar10, make_images(2, 0));
  const LabelledImages train = read_cifar(scratch.path().string(), CifarPart::train);
  EXPECT_EQ(train.labels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(read_cifar(scratch.path().string(), CifarPart::test).count, 2);
}

TEST(Cifar, AFolderOfCifar100HasOneFileAPart) {
  const test::ScratchFolder scratch;
  write_cifar(scratch.file("train.bin"), CifarKind::cifar100, make_images(4, 90));
  write_cifar(scratch.file("test.bin"), CifarKind::cifar100, make_images(1, 3));
  EXPECT_EQ(read_cifar(scratch.path().string(), CifarPart::train).labels.back(), 93);
  EXPECT_EQ(read_cifar(scratch.path().string(), CifarPart::test).labels.back(), 3);
}

TEST(Cifar, ReadsAListOfFilesAndANameWithAComma) {
  const test::ScratchFolder scratch;
  write_cifar(scratch.file("a.bin"), CifarKind::cifar10, make_images(1, 1));
  write_cifar(scratch.file("b,c.bin"), CifarKind::cifar10, make_images(2, 2));
  const std::string a = scratch.file("a.bin");
  EXPECT_EQ(read_cifar(a + "," + a, CifarPart::train).count, 2);
  EXPECT_EQ(read_cifar(scratch.file("b,c.bin"), CifarPart::train).count, 2);
}

TEST(Cifar, AFileThatBreaksOffIsBadDataWithOffsetAndLengths) {
  const test::ScratchFolder scratch;
  const std::string path = scratch.file("cut.bin");
  write_cifar(path, CifarKind::cifar10, make_images(2, 0));
  std::filesystem::resize_file(path, 2 * 3073 - 10);
  const Problem problem = problem_of<BadData>([&] { (void)read_cifar(path, CifarPart::train); });
  EXPECT_EQ(problem.code, "LS-2002");
  EXPECT_EQ(problem.where, path + ": offset 3073");
  EXPECT_NE(problem.what.find("3063 bytes, expected 3073"), std::string::npos) << problem.what;
}

TEST(Cifar, ALabelOutsideOfTheKindIsBadDataWithItsOffset) {
  const test::ScratchFolder scratch;
  const std::string ten = scratch.file("ten.bin");
  write_cifar(ten, CifarKind::cifar10, make_images(3, 8));
  const Problem problem = problem_of<BadData>([&] { (void)read_cifar(ten, CifarPart::train); });
  EXPECT_EQ(problem.code, "LS-2004");
  EXPECT_EQ(problem.where, ten + ": offset 6146");
  const std::string hundred = scratch.file("train.bin");
  write_cifar(hundred, CifarKind::cifar100, make_images(1, 100));
  const auto read = [&] { (void)read_cifar(hundred, CifarPart::train); };
  EXPECT_EQ(problem_of<BadData>(read).code, "LS-2004");
}

TEST(Cifar, AMissingBatchOfTheFolderIsNamed) {
  const test::ScratchFolder scratch;
  write_cifar(scratch.file("data_batch_1.bin"), CifarKind::cifar10, make_images(1, 0));
  const auto read = [&] { (void)read_cifar(scratch.path().string(), CifarPart::train); };
  const Problem problem = problem_of<EnvironmentFault>(read);
  EXPECT_EQ(problem.where, scratch.file("data_batch_2.bin"));
}

}  // namespace
}  // namespace lockstep::data
