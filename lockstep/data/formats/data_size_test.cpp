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
  EXPECT_EQ(resident_bytes(section(config::DataFormat::idx, path)), 63);
  EXPECT_EQ(resident_bytes(section(config::DataFormat::idx, path, path)), 126);
}

TEST(DataSize, OnlyTheSamplesAskedForCount) {
  const test::ScratchFolder folder;
  write_idx(folder.file("train-images-idx3-ubyte"), {{3, 4, 5}, std::vector<std::uint8_t>(60)});
  config::DataSection data = section(config::DataFormat::idx, folder.path().string());
  data.train_samples = 2;
  EXPECT_EQ(resident_bytes(data), 42);
  data.train_samples = 9;
  EXPECT_EQ(resident_bytes(data), 63);
}

TEST(DataSize, CifarCountsWholeRecordsOfAllFiles) {
  const test::ScratchFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", std::string(2 * 3073, '\0'));
  }
  EXPECT_EQ(resident_bytes(section(config::DataFormat::cifar, folder.path().string())), 10 * 3073);
}

TEST(DataSize, TextCountsTheFileAndNotWhatACommandPrints) {
  const test::ScratchFolder folder;
  const std::string file = folder.write("a.txt", "in the beginning");
  EXPECT_EQ(resident_bytes(section(config::DataFormat::text, file)), 16);
  EXPECT_EQ(resident_bytes(section(config::DataFormat::text, "!echo hello")), 0);
}

TEST(DataSize, AHeaderOfAbsurdDimensionsDoesNotOverflow) {
  const test::ScratchFolder folder;
  std::string header("\0\0\x08\x03", 4);
  header += std::string(12, '\xff');
  (void)folder.write("train-images-idx3-ubyte", header);
  EXPECT_EQ(resident_bytes(section(config::DataFormat::idx, folder.path().string())), 0);
}

TEST(TrainSamples, AreToldFromHeadersSizesAndTheConfiguration) {
  const test::ScratchFolder folder;
  write_idx(folder.file("train-images-idx3-ubyte"), {{3, 4, 5}, std::vector<std::uint8_t>(60)});
  EXPECT_EQ(train_samples(section(config::DataFormat::idx, folder.path().string())), 3);
  config::DataSection text =
      section(config::DataFormat::text, folder.write("a.txt", std::string(101, 'a')));
  text.seq_len = 10;
  EXPECT_EQ(train_samples(text), 10);
  text.eval_fraction = 0.5;
  EXPECT_EQ(train_samples(text), 4);
  text.train_samples = 2;
  EXPECT_EQ(train_samples(text), 2);
  EXPECT_EQ(train_samples(section(config::DataFormat::synthetic, "")), kDefaultSyntheticSamples);
  EXPECT_FALSE(train_samples(section(config::DataFormat::text, "!echo hello")).has_value());
  EXPECT_FALSE(train_samples(section(config::DataFormat::cifar, "/nowhere")).has_value());
}

TEST(DataSize, WhatIsNotThereCountsNothing) {
  EXPECT_EQ(resident_bytes(section(config::DataFormat::idx, "/no/such/folder")), 0);
  EXPECT_EQ(resident_bytes(section(config::DataFormat::cifar, "/no/such/folder")), 0);
  EXPECT_EQ(resident_bytes(section(config::DataFormat::synthetic, "")), 0);
}

}  // namespace
}  // namespace lockstep::data
