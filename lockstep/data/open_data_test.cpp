#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/idx.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using config::DataFormat;
using config::Family;
using config::RunConfig;
using Ids = std::vector<std::int64_t>;

Problem usage_problem(const RunConfig& config) {
  return test::problem_of<UsageError>([&] { (void)open_data(config); });
}

RunConfig fashion_mnist() {
  RunConfig config;
  config.model.family = Family::resnet;
  config.data.format = DataFormat::idx;
  config.data.train = config.data.eval = "/usr/share/datasets/fashion-mnist";
  config.data.train_samples = 100;
  return config;
}

// 4 training and 2 test images of 4 x 4 pixels, labels 0..3.
void write_small_idx(const test::ScratchFolder& scratch) {
  for (const auto& [name, count] : {std::pair{"train", 4}, std::pair{"t10k", 2}}) {
    std::vector<std::uint8_t> labels;
    for (int i = 0; i < count; ++i) labels.push_back(static_cast<std::uint8_t>(i));
    write_idx(scratch.file(std::string(name) + "-images-idx3-ubyte"),
              {{count, 4, 4}, std::vector<std::uint8_t>(static_cast<std::size_t>(count) * 16, 51)});
    write_idx(scratch.file(std::string(name) + "-labels-idx1-ubyte"), {{count}, labels});
  }
}

RunConfig small_idx(const test::ScratchFolder& scratch) {
  RunConfig config;
  config.model.family = Family::mlp;
  config.model.inputs = 16;
  config.data.format = DataFormat::idx;
  config.data.train = config.data.eval = scratch.path().string();
  return config;
}

RunConfig text_config(const std::string& train) {
  RunConfig config;
  config.model.family = Family::gpt;
  config.data.format = DataFormat::text;
  config.data.train = train;
  config.data.seq_len = 4;
  return config;
}

TEST(OpenData, GivesImagesToAResnetAndHonoursTrainSamples) {
  const DataPair pair = open_data(fashion_mnist());
  EXPECT_EQ(pair.train->size(), 100);
  EXPECT_EQ(pair.eval->size(), 10000);
  EXPECT_EQ(pair.train->collate(Ids{0, 99}, 0).input.sizes(), (at::IntArrayRef{2, 1, 28, 28}));
}

TEST(OpenData, GivesFlatFeaturesToAnMlp) {
  const test::ScratchFolder scratch;
  write_small_idx(scratch);
  const DataPair pair = open_data(small_idx(scratch));
  EXPECT_EQ(pair.train->size(), 4);
  EXPECT_EQ(pair.eval->size(), 2);
  const Batch batch = pair.train->collate(Ids{3}, 0);
  EXPECT_EQ(batch.input.sizes(), (at::IntArrayRef{1, 16}));
  EXPECT_EQ(batch.input[0][0].item<float>(), 51.0F / 255.0F);
  EXPECT_EQ(batch.target[0].item<std::int64_t>(), 3);
}

TEST(OpenData, WithoutEvalThereIsNone) {
  const test::ScratchFolder scratch;
  write_small_idx(scratch);
  RunConfig config = small_idx(scratch);
  config.data.eval = "";
  EXPECT_EQ(open_data(config).eval, nullptr);
}

TEST(OpenData, ReadsCifarForAResnet) {
  const test::ScratchFolder scratch;
  LabelledImages images;
  images.count = 2;
  images.labels = {1, 9};
  images.pixels.assign(2 * kCifarPixels, 255);
  write_cifar(scratch.file("some.bin"), CifarKind::cifar10, images);
  RunConfig config;
  config.model.family = Family::resnet;
  config.model.channels = 3;
  config.model.image_size = 32;
  config.data.format = DataFormat::cifar;
  config.data.train = scratch.file("some.bin");
  EXPECT_EQ(open_data(config).train->collate(Ids{1, 0}, 0).input.sizes(),
            (at::IntArrayRef{2, 3, 32, 32}));
  config.model.channels = 1;
  EXPECT_EQ(usage_problem(config).where, "model.channels");
}

TEST(OpenData, AModelThatDoesNotFitTheImagesIsAUsageErrorWithTheRightNumber) {
  const test::ScratchFolder scratch;
  write_small_idx(scratch);
  RunConfig config = small_idx(scratch);
  config.model.inputs = 784;
  EXPECT_EQ(usage_problem(config).fix, "set model.inputs = 16");
  config.model.family = Family::resnet;
  EXPECT_EQ(usage_problem(config).where, "model.image_size");
  config.model.family = Family::gpt;
  EXPECT_EQ(usage_problem(config).code, "LS-2007");
}

TEST(OpenData, ALabelBeyondTheModelsClassesIsAUsageError) {
  const test::ScratchFolder scratch;
  write_small_idx(scratch);
  RunConfig config = small_idx(scratch);
  config.model.classes = 3;
  const Problem problem = usage_problem(config);
  EXPECT_EQ(problem.where, "model.classes");
  EXPECT_NE(problem.what.find("label 3 (sample 3)"), std::string::npos) << problem.what;
}

TEST(OpenData, ATruncatedIdxFileEndsWithExitCode4) {
  const test::ScratchFolder scratch;
  write_small_idx(scratch);
  std::filesystem::resize_file(scratch.file("train-images-idx3-ubyte"), 50);
  try {
    (void)open_data(small_idx(scratch));
    FAIL() << "a truncated file was accepted";
  } catch (const BadData& error) {
    EXPECT_EQ(static_cast<int>(error.exit()), 4);
    EXPECT_NE(error.problems()[0].what.find("80 bytes in all, the file has 50"), std::string::npos);
  }
}

TEST(OpenData, HoldsOutTheEndOfATextWhenNoEvalIsNamed) {
  const test::ScratchFolder scratch;
  RunConfig config = text_config(scratch.write("text", "0123456789abcdefghij"));
  config.data.eval_fraction = 0.25;
  const DataPair pair = open_data(config);
  EXPECT_EQ(pair.train->size(), 3);  // 15 bytes
  EXPECT_EQ(pair.eval->size(), 1);   // 5 bytes
  EXPECT_EQ(pair.eval->collate(Ids{0}, 0).input[0][0].item<std::int64_t>(), 'f');
  config.data.eval_fraction = 0;
  EXPECT_EQ(open_data(config).eval, nullptr);
}

TEST(OpenData, ReadsTrainAndEvalTextFromFilesAndPrograms) {
  const test::ScratchFolder scratch;
  RunConfig config = text_config("!echo aaaabbbbcccc");
  config.data.eval = scratch.write("eval", "xyzxyzxyz");
  config.data.eval_fraction = 0.5;  // without meaning beside data.eval
  const DataPair pair = open_data(config);
  EXPECT_EQ(pair.train->size(), 3);
  EXPECT_EQ(pair.eval->collate(Ids{0}, 0).input[0][0].item<std::int64_t>(), 'x');
}

TEST(OpenData, TextThatIsTooShortOrDoesNotFitTheModelIsAUsageError) {
  RunConfig config = text_config("!echo abc");
  EXPECT_EQ(usage_problem(config).code, "LS-2008");
  config.model.vocab_size = 100;
  EXPECT_EQ(usage_problem(config).where, "model.vocab_size");
  config.model.family = Family::mlp;
  EXPECT_EQ(usage_problem(config).where, "data.format");
  config.data.train = "";
  EXPECT_EQ(usage_problem(config).where, "data.train");
}

TEST(OpenData, SyntheticDataFitEveryFamily) {
  RunConfig config;
  config.data.train_samples = 30;
  config.data.eval_samples = 20;
  config.data.seq_len = 12;
  const std::vector<std::pair<Family, std::vector<std::int64_t>>> shapes{
      {Family::mlp, {2, 784}}, {Family::resnet, {2, 1, 28, 28}}, {Family::gpt, {2, 12}}};
  for (const auto& [family, shape] : shapes) {
    config.model.family = family;
    const DataPair pair = open_data(config);
    EXPECT_EQ(pair.train->size(), 30);
    EXPECT_EQ(pair.eval->size(), 20);
    EXPECT_EQ(pair.train->collate(Ids{0, 1}, 0).input.sizes(), at::IntArrayRef(shape));
  }
  config.data.eval_samples = 0;
  EXPECT_EQ(open_data(config).eval, nullptr);
}

}  // namespace
}  // namespace lockstep::data
