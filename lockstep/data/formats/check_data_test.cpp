#include "lockstep/data/formats/check_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/idx.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using config::DataFormat;
using config::Family;
using testing::HasSubstr;

config::RunConfig run_of(Family family, DataFormat format, const std::string& train) {
  config::RunConfig config;
  config.model.family = family;
  config.data.format = format;
  config.data.train = train;
  return config;
}

/// The only fault; an empty one when there are more or none.
DataFault only_fault(const config::RunConfig& config) {
  const auto faults = check_data(config);
  EXPECT_EQ(faults.size(), 1U);
  return faults.size() == 1 ? faults.front() : DataFault{};
}

void write_images(const test::ScratchFolder& folder, std::vector<std::int64_t> dims,
                  std::int64_t labels) {
  std::size_t size = 1;
  for (const std::int64_t dim : dims) size *= static_cast<std::size_t>(dim);
  write_idx(folder.file("train-images-idx3-ubyte"),
            {std::move(dims), std::vector<std::uint8_t>(size)});
  write_idx(folder.file("train-labels-idx1-ubyte"),
            {{labels}, std::vector<std::uint8_t>(static_cast<std::size_t>(labels))});
}

TEST(CheckData, FindsNothingWrongWithSyntheticAndWithGoodData) {
  EXPECT_TRUE(check_data(config::RunConfig{}).empty());
  const test::ScratchFolder folder;
  write_images(folder, {3, 28, 28}, 3);
  EXPECT_TRUE(check_data(run_of(Family::mlp, DataFormat::idx, folder.path().string())).empty());
}

TEST(CheckData, NamesTheKeyAtFaultAndBothNamesThatWereTried) {
  const test::ScratchFolder folder;
  const DataFault fault = only_fault(run_of(Family::mlp, DataFormat::idx, folder.path().string()));
  EXPECT_EQ(fault.exit, Exit::environment);
  EXPECT_EQ(fault.problem.where, "data.train");
  EXPECT_THAT(fault.problem.what,
              HasSubstr("neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"));
  EXPECT_EQ(only_fault(run_of(Family::mlp, DataFormat::idx, "/nowhere")).problem.where,
            "data.train");
}

TEST(CheckData, FindsTheFaultsOfBothParts) {
  config::RunConfig config = run_of(Family::gpt, DataFormat::text, "/nowhere");
  config.data.eval = "/nowhere/either";
  const auto faults = check_data(config);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[1].problem.where, "data.eval");
}

TEST(CheckData, EmptyCifarFilesAreCorrupt) {
  const test::ScratchFolder folder;
  for (int i = 1; i <= 5; ++i) folder.write("data_batch_" + std::to_string(i) + ".bin", "");
  config::RunConfig config = run_of(Family::resnet, DataFormat::cifar, folder.path().string());
  config.model.channels = 3;
  config.model.image_size = 32;
  const DataFault fault = only_fault(config);
  EXPECT_EQ(fault.exit, Exit::bad_data);
  EXPECT_EQ(fault.problem.code, "LS-2002");
  EXPECT_THROW((void)read_cifar(folder.path().string(), CifarPart::train), BadData);
}

TEST(CheckData, ImagesWithoutPixelsAreCorruptAndNotAShapeToConfigure) {
  const test::ScratchFolder folder;
  write_images(folder, {64, 0, 28}, 64);
  const DataFault fault = only_fault(run_of(Family::mlp, DataFormat::idx, folder.path().string()));
  EXPECT_EQ(fault.exit, Exit::bad_data);
  EXPECT_THAT(fault.problem.what, HasSubstr("64 x 0 x 28"));
  EXPECT_THROW((void)read_idx_images(folder.path().string(), IdxPart::train), BadData);
}

TEST(CheckData, LabelsForOtherImagesAreCorrupt) {
  const test::ScratchFolder folder;
  write_images(folder, {3, 28, 28}, 2);
  EXPECT_EQ(only_fault(run_of(Family::mlp, DataFormat::idx, folder.path().string())).exit,
            Exit::bad_data);
}

TEST(CheckData, AModelOfAnotherShapeIsToldTheRightNumber) {
  const test::ScratchFolder folder;
  write_images(folder, {3, 8, 8}, 3);
  const DataFault fault = only_fault(run_of(Family::mlp, DataFormat::idx, folder.path().string()));
  EXPECT_EQ(fault.exit, Exit::usage);
  EXPECT_EQ(fault.problem.where, "model.inputs");
  EXPECT_EQ(fault.problem.fix, "set model.inputs = 64");
}

TEST(CheckData, ShortTextSaysWhatWasHeldOutOfIt) {
  const test::ScratchFolder folder;
  config::RunConfig config = run_of(Family::gpt, DataFormat::text, folder.write("a.txt", "12345"));
  config.data.seq_len = 4;
  EXPECT_TRUE(check_data(config).empty()) << "5 bytes are a sample of 4 tokens and the next";
  config.data.eval_fraction = 0.2;
  const auto faults = check_data(config);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].problem.what,
            "4 bytes are left of 5 bytes of text: data.eval_fraction holds out 1; one sample needs "
            "data.seq_len + 1 = 5");
  EXPECT_EQ(faults[1].problem.where, "data.eval_fraction");
}

TEST(CheckData, DoesNotRunPrograms) {
  const test::ScratchFolder folder;
  const std::string mark = folder.file("mark");
  EXPECT_TRUE(check_data(run_of(Family::gpt, DataFormat::text, "!touch " + mark)).empty());
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(CheckData, KindsThatDoNotFitAreFoundWithoutTheFiles) {
  EXPECT_EQ(check_data_kind(run_of(Family::gpt, DataFormat::idx, "")).size(), 1U);
  EXPECT_EQ(check_data_kind(run_of(Family::mlp, DataFormat::text, "")).size(), 1U);
  config::RunConfig config = run_of(Family::gpt, DataFormat::text, "");
  EXPECT_TRUE(check_data_kind(config).empty());
  config.model.vocab_size = 255;
  EXPECT_EQ(check_data_kind(config).size(), 1U);
}

TEST(CheckData, AnImageThatIsNotSquareIsWrongForAResnetWhateverItsSize) {
  config::ModelSection model;
  model.family = Family::resnet;
  model.channels = 3;
  model.image_size = 8;
  EXPECT_TRUE(check_image_shape(model, "data.eval", {3, 8, 8}).empty());
  const auto problems = check_image_shape(model, "data.eval", {1, 8, 9});
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].where, "model.channels");
  EXPECT_EQ(problems[1].what, "8, but the images of data.eval are 1 x 8 x 9");
}

}  // namespace
}  // namespace lockstep::data
