#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/checkpoint/names/family_lists_testing.h"
#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/rename.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAreArray;

// Each norm is followed by a count of batches there.
constexpr const char* kHuggingFace =
    R"(resnet.embedder.embedder.convolution.weight F32 [2, 3, 3, 3]
resnet.embedder.embedder.normalization.weight F32 [2]
resnet.embedder.embedder.normalization.bias F32 [2]
resnet.embedder.embedder.normalization.running_mean F32 [2]
resnet.embedder.embedder.normalization.num_batches_tracked I64 []
resnet.embedder.embedder.normalization.running_var F32 [2]
resnet.encoder.stages.0.layers.0.layer.0.convolution.weight F32 [2, 2, 3, 3]
resnet.encoder.stages.0.layers.0.layer.0.normalization.weight F32 [2]
resnet.encoder.stages.0.layers.0.layer.0.normalization.bias F32 [2]
resnet.encoder.stages.0.layers.0.layer.0.normalization.running_mean F32 [2]
resnet.encoder.stages.0.layers.0.layer.0.normalization.num_batches_tracked I64 []
resnet.encoder.stages.0.layers.0.layer.0.normalization.running_var F32 [2]
resnet.encoder.stages.0.layers.0.layer.1.convolution.weight F32 [2, 2, 3, 3]
resnet.encoder.stages.0.layers.0.layer.1.normalization.weight F32 [2]
resnet.encoder.stages.0.layers.0.layer.1.normalization.bias F32 [2]
resnet.encoder.stages.0.layers.0.layer.1.normalization.running_mean F32 [2]
resnet.encoder.stages.0.layers.0.layer.1.normalization.num_batches_tracked I64 []
resnet.encoder.stages.0.layers.0.layer.1.normalization.running_var F32 [2]
resnet.encoder.stages.1.layers.0.shortcut.convolution.weight F32 [4, 2, 1, 1]
resnet.encoder.stages.1.layers.0.shortcut.normalization.weight F32 [4]
resnet.encoder.stages.1.layers.0.shortcut.normalization.bias F32 [4]
resnet.encoder.stages.1.layers.0.shortcut.normalization.running_mean F32 [4]
resnet.encoder.stages.1.layers.0.shortcut.normalization.num_batches_tracked I64 []
resnet.encoder.stages.1.layers.0.shortcut.normalization.running_var F32 [4]
resnet.encoder.stages.1.layers.0.layer.0.convolution.weight F32 [4, 2, 3, 3]
resnet.encoder.stages.1.layers.0.layer.0.normalization.weight F32 [4]
resnet.encoder.stages.1.layers.0.layer.0.normalization.bias F32 [4]
resnet.encoder.stages.1.layers.0.layer.0.normalization.running_mean F32 [4]
resnet.encoder.stages.1.layers.0.layer.0.normalization.num_batches_tracked I64 []
resnet.encoder.stages.1.layers.0.layer.0.normalization.running_var F32 [4]
resnet.encoder.stages.1.layers.0.layer.1.convolution.weight F32 [4, 4, 3, 3]
resnet.encoder.stages.1.layers.0.layer.1.normalization.weight F32 [4]
resnet.encoder.stages.1.layers.0.layer.1.normalization.bias F32 [4]
resnet.encoder.stages.1.layers.0.layer.1.normalization.running_mean F32 [4]
resnet.encoder.stages.1.layers.0.layer.1.normalization.num_batches_tracked I64 []
resnet.encoder.stages.1.layers.0.layer.1.normalization.running_var F32 [4]
classifier.1.weight F32 [10, 4]
classifier.1.bias F32 [10])";
constexpr const char* kTorchvision = R"(conv1.weight F32 [2, 3, 3, 3]
bn1.weight F32 [2]
bn1.bias F32 [2]
bn1.running_mean F32 [2]
bn1.num_batches_tracked I64 []
bn1.running_var F32 [2]
layer1.0.conv1.weight F32 [2, 2, 3, 3]
layer1.0.bn1.weight F32 [2]
layer1.0.bn1.bias F32 [2]
layer1.0.bn1.running_mean F32 [2]
layer1.0.bn1.num_batches_tracked I64 []
layer1.0.bn1.running_var F32 [2]
layer1.0.conv2.weight F32 [2, 2, 3, 3]
layer1.0.bn2.weight F32 [2]
layer1.0.bn2.bias F32 [2]
layer1.0.bn2.running_mean F32 [2]
layer1.0.bn2.num_batches_tracked I64 []
layer1.0.bn2.running_var F32 [2]
layer2.0.downsample.0.weight F32 [4, 2, 1, 1]
layer2.0.downsample.1.weight F32 [4]
layer2.0.downsample.1.bias F32 [4]
layer2.0.downsample.1.running_mean F32 [4]
layer2.0.downsample.1.num_batches_tracked I64 []
layer2.0.downsample.1.running_var F32 [4]
layer2.0.conv1.weight F32 [4, 2, 3, 3]
layer2.0.bn1.weight F32 [4]
layer2.0.bn1.bias F32 [4]
layer2.0.bn1.running_mean F32 [4]
layer2.0.bn1.num_batches_tracked I64 []
layer2.0.bn1.running_var F32 [4]
layer2.0.conv2.weight F32 [4, 4, 3, 3]
layer2.0.bn2.weight F32 [4]
layer2.0.bn2.bias F32 [4]
layer2.0.bn2.running_mean F32 [4]
layer2.0.bn2.num_batches_tracked I64 []
layer2.0.bn2.running_var F32 [4]
fc.weight F32 [10, 4]
fc.bias F32 [10])";

class ResnetNamesTest : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  const NameMap& map = *find_name_map(GetParam().first);
};

TEST_P(ResnetNamesTest, OursHaveTheirNamesAndACountBesideEachNorm) {
  auto ours = source_of(kResnetOurs);
  const auto bytes = read_all(*ours);
  Renaming there = rename(*ours, map, Convention::ours, "x");
  auto theirs = std::make_unique<RenamedSource>(std::move(ours), std::move(there));
  EXPECT_THAT(lines_of(*theirs), ElementsAreArray(split_list(GetParam().second)));
  for (const auto& [name, tensor] : read_all(*theirs)) {
    if (tensor.dtype != "I64") continue;
    EXPECT_EQ(tensor.bytes, std::vector<std::byte>(8, std::byte{0})) << name;
  }
  Renaming back = rename(*theirs, map, Convention::theirs, "x");
  const RenamedSource again(std::move(theirs), std::move(back));
  EXPECT_THAT(lines_of(again), ElementsAreArray(split_list(kResnetOurs)));
  EXPECT_EQ(read_all(again), bytes);
}

TEST_P(ResnetNamesTest, CountsOfBatchesAreLeftOutAndSaidSo) {
  auto theirs = source_of(GetParam().second);
  Renaming renaming = rename(*theirs, map, Convention::theirs, "x");
  ASSERT_EQ(renaming.left_out.size(), 6U);
  EXPECT_EQ(renaming.left_out[0].why, "a count of batches, which ours does without");
  const RenamedSource ours(std::move(theirs), std::move(renaming));
  EXPECT_THAT(lines_of(ours), ElementsAreArray(split_list(kResnetOurs)));
}

TEST_P(ResnetNamesTest, BottlenecksAreABlockOfThree) {
  const auto known = find_name(map, Convention::ours, "stage4.2.conv3.weight");
  ASSERT_TRUE(known.has_value());
  const std::string theirs = fill_pattern(known->rule->theirs[0], known->bindings);
  EXPECT_EQ(theirs, map.family == "resnet"
                        ? "resnet.encoder.stages.3.layers.2.layer.2.convolution.weight"
                        : "layer4.2.conv3.weight");
}

TEST_P(ResnetNamesTest, ParametersWithoutStatisticsAreTakenToo) {
  auto ours = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(kResnetOurs)) {
    if (line.find("running") == std::string::npos) ours->add(parse_line(line));
  }
  EXPECT_EQ(rename(*ours, map, Convention::ours, "x").views.size(), 20U);
}

TEST_P(ResnetNamesTest, TheFamilyIsRecognised) {
  std::vector<std::string> names;
  for (const std::string& line : split_list(GetParam().second)) {
    names.push_back(parse_line(line).name);
  }
  EXPECT_EQ(guess_family(names), &map);
}

INSTANTIATE_TEST_SUITE_P(Families, ResnetNamesTest,
                         testing::Values(std::pair{"resnet", kHuggingFace},
                                         std::pair{"resnet-torchvision", kTorchvision}),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "HuggingFace" : "Torchvision");
                         });

}  // namespace
}  // namespace lockstep::checkpoint
