#include "lockstep/data/formats/data_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/idx.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

config::DataSection section(config::DataFormat format, const std::string& train,
                            const std::string& eval = "") {
  config::DataSection data;
  data.format = format;
  data.train = train;
  data.eval = eval;
  return data;
}

TEST(DataSize, IdxCountsPixelsAndLabelsOfBothParts) {
  const test::ScratchFolder folder;
  for (const char* part : {"train", "t10k"}) {
    write_idx(folder.file(std::string(part) + "-images-idx3-ubyte.gz"),
              {{3, 4, 5}, std::vector<std::uint8_t>(60)});
  }
  const std::string path = folder.path().string();
  EXPECT_EQ(data_size(section(config::DataFormat::idx, path)).resident_bytes, 63);
  EXPECT_EQ(data_size(section(config::DataFormat::idx, path, path)).resident_bytes, 126);
}

TEST(DataSize, OnlyTheSamplesAskedForCount) {
  const test::ScratchFolder folder;
  write_idx(folder.file("train-images-idx3-ubyte"), {{3, 4, 5}, std::vector<std::uint8_t>(60)});
  config::DataSection data = section(config::DataFormat::idx, folder.path().string());
  data.train_samples = 2;
  EXPECT_EQ(data_size(data).resident_bytes, 42);
  data.train_samples = 9;
  EXPECT_EQ(data_size(data).resident_bytes, 63);
}

TEST(DataSize, CifarCountsWholeRecordsOfAllFiles) {
  const test::ScratchFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", std::string(2 * 3073, '\0'));
  }
  EXPECT_EQ(data_size(section(config::DataFormat::cifar, folder.path().string())).resident_bytes,
            10 * 3073);
}

TEST(DataSize, TextCountsTheFileAndNotWhatACommandPrints) {
  const test::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "in the beginning");
  EXPECT_EQ(data_size(section(config::DataFormat::text, file)).resident_bytes, 16);
  EXPECT_EQ(data_size(section(config::DataFormat::text, "!echo hello")).resident_bytes, 0);
}

TEST(DataSize, AHeaderOfAbsurdDimensionsDoesNotOverflow) {
  const test::ScratchFolder folder;
  std::string header("\0\0\x08\x03", 4);
  header += std::string(12, '\xff');
  (void)folder.write("train-images-idx3-ubyte", header);
  EXPECT_EQ(data_size(section(config::DataFormat::idx, folder.path().string())).resident_bytes, 0);
}

TEST(DataSize, SamplesOfAnEpochAreToldFromHeadersSizesAndTheConfiguration) {
  const test::ScratchFolder folder;
  write_idx(folder.file("train-images-idx3-ubyte"), {{3, 4, 5}, std::vector<std::uint8_t>(60)});
  EXPECT_EQ(data_size(section(config::DataFormat::idx, folder.path().string())).samples_per_epoch,
            3);
  config::DataSection text =
      section(config::DataFormat::text, folder.write("a.txt", std::string(101, 'a')));
  text.seq_len = 10;
  EXPECT_EQ(data_size(text).samples_per_epoch, 10);
  text.eval_fraction = 0.5;
  EXPECT_EQ(data_size(text).samples_per_epoch, 4);
  text.train_samples = 2;
  EXPECT_EQ(data_size(text).samples_per_epoch, 2);
  EXPECT_EQ(data_size(section(config::DataFormat::synthetic, "")).samples_per_epoch,
            kDefaultSyntheticSamples);
  EXPECT_FALSE(
      data_size(section(config::DataFormat::text, "!echo hello")).samples_per_epoch.has_value());
  EXPECT_FALSE(
      data_size(section(config::DataFormat::cifar, "/nowhere")).samples_per_epoch.has_value());
}

TEST(DataSize, WhatIsNotThereCountsNothing) {
  EXPECT_EQ(data_size(section(config::DataFormat::idx, "/no/such/folder")).resident_bytes, 0);
  EXPECT_EQ(data_size(section(config::DataFormat::cifar, "/no/such/folder")).resident_bytes, 0);
  EXPECT_EQ(data_size(section(config::DataFormat::synthetic, "")).resident_bytes, 0);
}

}  // namespace
}  // namespace lockstep::data
