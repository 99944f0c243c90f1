#include "lockstep/checkpoint/foreign/deepspeed_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;
using Texts = std::vector<std::pair<std::string, std::string>>;  // key and pickled value

std::string bytes_of(const Floats& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A file of torch.save in the making: its storages are numbered as they are asked for.
class File {
 public:
  std::string tensor(const Floats& values, const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> stride(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
    const std::string key = std::to_string(storages_.size());
    storages_.push_back(bytes_of(values));
    const auto elements = static_cast<std::int64_t>(values.size());
    return made::tensor(made::storage("FloatStorage", key, elements), 0, shape, stride);
  }
  std::string flat(const Floats& values) {
    return tensor(values, {static_cast<std::int64_t>(values.size())});
  }
  [[nodiscard]] std::string of(const std::string& value) const {
    return made::torch_file_of(made::pickle(value), storages_);
  }

 private:
  std::vector<std::string> storages_;
};

std::string size_of(const std::vector<std::int64_t>& shape) {
  return made::reduce(made::global("torch", "Size"), {made::numbers(shape)});
}

/// What the optimizer of one rank has: flat weights, and two moments of each group.
struct RankState {
  std::vector<Floats> weights;
  std::vector<Floats> exp_avg;
};

std::string moments(File& file, const std::vector<Floats>& groups) {
  std::string state = "}(";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    state += made::integer(static_cast<std::int64_t>(i)) +
             made::dict({{"step", file.tensor({7}, {})}, {"exp_avg", file.flat(groups[i])}});
  }
  return made::dict({{"state", state + "u"}, {"param_groups", made::list({})}});
}

std::string flats(File& file, const std::vector<Floats>& groups) {
  std::vector<std::string> items;
  for (const Floats& group : groups) items.push_back(file.flat(group));
  return made::list(items);
}

std::string stage_of(std::int64_t stage) {
  return made::reduce(made::global("deepspeed.runtime.zero.config", "ZeroStageEnum"),
                      {made::integer(stage)});
}

std::string zero_2_file(const RankState& state, std::int64_t ranks) {
  File file;
  const Texts inner{
      {"loss_scaler",
       made::reduce(made::global("deepspeed.runtime.fp16.loss_scaler", "LossScaler"), {})},
      {"zero_stage", stage_of(2)},
      {"partition_count",
       made::list(std::vector<std::string>(state.weights.size(), made::integer(ranks)))},
      {"single_partition_of_fp32_groups", flats(file, state.weights)},
      {"base_optimizer_state", moments(file, state.exp_avg)}};
  return file.of(made::dict({{"optimizer_state_dict", made::dict(inner)}}));
}

std::string zero_3_file(const RankState& state, std::int64_t ranks) {
  File file;
  const Texts inner{{"zero_stage", stage_of(3)},
                    {"partition_count", made::integer(ranks)},
                    {"fp32_flat_groups", flats(file, state.weights)},
                    {"optimizer_state_dict", moments(file, state.exp_avg)}};
  return file.of(made::dict({{"optimizer_state_dict", made::dict(inner)}}));
}

std::string model_file(File& file, const std::vector<Texts>& shapes, const Texts& module = {},
                       const std::vector<std::string>& buffers = {}, const Texts& more = {}) {
  std::vector<std::string> groups;
  for (const Texts& group : shapes) groups.push_back(made::ordered_dict(group));
  std::vector<std::string> names;
  for (const std::string& name : buffers) names.push_back(made::text(name));
  Texts entries{{"module", made::ordered_dict(module)},
                {"buffer_names", made::list(names)},
                {"param_shapes", made::list(groups)},
                {"ds_version", made::text("0.18.2")},
                {"global_steps", made::integer(12)}};
  entries.insert(entries.end(), more.begin(), more.end());
  return file.of(made::dict(entries));
}

Floats read(const TensorSource& source, const std::string& name) {
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    if (source.tensors()[i].name != name) continue;
    Floats values(source.tensors()[i].bytes() / sizeof(float));
    source.read(i, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

std::vector<std::string> names_of(const TensorSource& source) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : source.tensors()) names.push_back(tensor.name);
  return names;
}

class DeepSpeedFolderTest : public ::testing::Test {
 protected:
  DeepSpeedFolderTest() {
    std::filesystem::create_directory(folder_.path() / "step12");
    folder_.write("latest", "step12\n");
  }
  void write(const std::string& name, const std::string& bytes) const {
    folder_.write("step12/" + name, bytes);
  }
  void write_optimizer(int rank, const std::string& bytes) const {
    write("bf16_zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_optim_states.pt", bytes);
  }
  /// Two ranks, a group of a [2, 2] and b [3], filled up from 7 to 8.
  void write_zero_2() const {
    write_optimizer(0, zero_2_file({{{1, 2, 3, 4}}, {{10, 20, 30, 40}}}, 2));
    write_optimizer(1, zero_2_file({{{5, 6, 7}}, {{50, 60, 70, 0}}}, 2));
    File file;
    write("mp_rank_00_model_states.pt", model_file(file, kShapes));
  }
  /// The same in parts: a 2 and 2, b 2 and 1 (and one more).
  void write_zero_3() const {
    write_optimizer(0, zero_3_file({{{1, 2, 5, 6}}, {{10, 20, 50, 60}}}, 2));
    write_optimizer(1, zero_3_file({{{3, 4, 7, 0}}, {{30, 40, 70, 0}}}, 2));
    File file;
    write("zero_pp_rank_0_mp_rank_00_model_states.pt", model_file(file, kShapes));
  }
  [[nodiscard]] DeepSpeedSource source() const { return DeepSpeedSource(folder_.path()); }
  [[nodiscard]] std::string fault() const {
    try {
      const DeepSpeedSource opened(folder_.path());
      return "";
    } catch (const BadData& error) {
      const Problem& problem = error.problems()[0];
      return problem.code + " " + problem.where + ": " + problem.what + "; " + problem.fix;
    }
  }

  const std::vector<Texts> kShapes{{{"a", size_of({2, 2})}, {"b", size_of({3})}}};
  made::TestFolder folder_;
};

TEST_F(DeepSpeedFolderTest, PartitionsOfZero2AreMergedAcrossRanks) {
  write_zero_2();
  const auto opened = source();
  EXPECT_EQ(opened.format(), "deepspeed");
  EXPECT_THAT(names_of(opened), ElementsAre("a", "b", "a/exp_avg", "b/exp_avg"));
  EXPECT_EQ(opened.tensors()[0].shape, (Shape{2, 2}));
  EXPECT_EQ(opened.tensors()[0].kind, "parameter");
  EXPECT_EQ(opened.tensors()[2].kind, "optimizer");
  EXPECT_THAT(read(opened, "a"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(opened, "b"), ElementsAre(5, 6, 7));
  EXPECT_THAT(read(opened, "b/exp_avg"), ElementsAre(50, 60, 70));
  EXPECT_EQ(opened.facts().at("step"), "12");
  EXPECT_EQ(opened.facts().at("zero_stage"), "2");
  EXPECT_EQ(opened.facts().at("world_size"), "2");
  EXPECT_EQ(opened.facts().at("ds_version"), "0.18.2");
  EXPECT_EQ(opened.facts().at("optimizer.0.step"), "7");
}

TEST_F(DeepSpeedFolderTest, PartsOfZero3AreMergedParameterByParameter) {
  write_zero_3();
  const auto opened = source();
  EXPECT_THAT(names_of(opened), ElementsAre("a", "b", "a/exp_avg", "b/exp_avg"));
  EXPECT_THAT(read(opened, "a"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(opened, "b"), ElementsAre(5, 6, 7));
  EXPECT_THAT(read(opened, "a/exp_avg"), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(opened.facts().at("zero_stage"), "3");
}

TEST_F(DeepSpeedFolderTest, EveryRangeOfATensorIsTheSameBytes) {
  write_zero_3();
  const auto opened = source();
  const std::string all = bytes_of({1, 2, 3, 4});
  for (std::size_t begin = 0; begin <= all.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= all.size(); ++length) {
      std::string part(length, '?');
      opened.read(0, begin, std::as_writable_bytes(std::span(part)));
      EXPECT_EQ(part, all.substr(begin, length));
    }
  }
}

TEST_F(DeepSpeedFolderTest, ThePartitionOfARankMayHoldSeveralParametersAndOneMaySpanRanks) {
  for (int rank = 0; rank < 3; ++rank) {
    const auto first = static_cast<float>(2 * rank);
    write_optimizer(rank, zero_2_file({{{first, first + 1}}, {{first, first + 1}}}, 3));
  }
  File file;
  write("mp_rank_00_model_states.pt",
        model_file(file, {{{"x", size_of({1})}, {"y", size_of({4})}, {"z", size_of({})}}}));
  const auto opened = source();
  EXPECT_THAT(read(opened, "x"), ElementsAre(0));
  EXPECT_THAT(read(opened, "y"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(opened, "z"), ElementsAre(5));
}

TEST_F(DeepSpeedFolderTest, StateAsElasticCheckpointsAndBf16HaveItIsRead) {
  File file;
  const Texts inner{
      {"partition_count", made::list({made::integer(1)})},
      {"single_partition_of_fp32_groups", made::list({file.flat({1, 2, 3, 4, 5, 6, 7})})},
      {"base_optimizer_state",
       made::list({made::dict({{"exp_avg", file.flat({9, 8, 7, 6, 5, 4, 3})},
                               {"step", made::integer(3)},
                               {"coefficient", made::text("x")}})})}};
  write_optimizer(0, file.of(made::dict({{"optimizer_state_dict", made::dict(inner)}})));
  File model;
  write("mp_rank_00_model_states.pt", model_file(model, kShapes));
  const auto opened = source();
  EXPECT_THAT(read(opened, "b"), ElementsAre(5, 6, 7));
  EXPECT_THAT(read(opened, "b/exp_avg"), ElementsAre(5, 4, 3));
  EXPECT_EQ(opened.facts().at("zero_stage"), "1");
  EXPECT_EQ(opened.facts().at("optimizer.0.step"), "3");
  ASSERT_EQ(opened.skipped().size(), 1U);
  EXPECT_EQ(opened.skipped()[0].name, "optimizer.0.coefficient");
}

TEST_F(DeepSpeedFolderTest, WeightsWithoutOptimizerStateAreReadAlone) {
  write_optimizer(0, zero_3_file({{{1, 2, 5, 6}}, {}}, 2));
  write_optimizer(1, zero_3_file({{{3, 4, 7, 0}}, {}}, 2));
  File file;
  write("zero_pp_rank_0_mp_rank_00_model_states.pt", model_file(file, kShapes));
  EXPECT_THAT(names_of(source()), ElementsAre("a", "b"));
}

TEST_F(DeepSpeedFolderTest, GroupsAreMergedEachByItself) {
  write_optimizer(0, zero_2_file({{{1, 2}, {5}}, {{1, 2}, {5}}}, 2));
  write_optimizer(1, zero_2_file({{{3, 4}, {6}}, {{3, 4}, {6}}}, 2));
  File file;
  write("mp_rank_00_model_states.pt",
        model_file(file, {{{"a", size_of({4})}}, {{"b", size_of({2})}}}));
  EXPECT_THAT(read(source(), "a"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(source(), "b/exp_avg"), ElementsAre(5, 6));
}

TEST_F(DeepSpeedFolderTest, GroupsOfZero3AreReadAsOne) {
  write_optimizer(0, zero_3_file({{{1, 2}, {5}}, {{1, 2}, {5}}}, 2));
  write_optimizer(1, zero_3_file({{{3, 4}, {6}}, {{3, 4}, {6}}}, 2));
  File file;
  write("zero_pp_rank_0_mp_rank_00_model_states.pt",
        model_file(file, {{{"a", size_of({4})}, {"b", size_of({2})}}}));
  EXPECT_THAT(read(source(), "a"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(source(), "b"), ElementsAre(5, 6));
  EXPECT_THAT(read(source(), "b/exp_avg"), ElementsAre(5, 6));
}

TEST_F(DeepSpeedFolderTest, BuffersFrozenAndTiedParametersAreThere) {
  write_zero_2();
  File file;
  const Texts module{{"a", file.tensor({0, 0, 0, 0}, {2, 2})},
                     {"b", file.flat({0, 0, 0})},
                     {"mean", file.flat({8, 9})},
                     {"tied", file.flat({0})},
                     {"cold", file.flat({4, 5})},
                     {"odd", file.flat({1})},
                     {"extra", made::text("state")}};
  const Texts more{{"frozen_param_shapes", made::ordered_dict({{"cold", size_of({2})}})},
                   {"frozen_param_fragments", made::ordered_dict({{"cold", file.flat({4, 5})}})},
                   {"shared_params", made::dict({{"tied", made::text("a")}})}};
  write("mp_rank_00_model_states.pt", model_file(file, kShapes, module, {"mean"}, more));
  const auto opened = source();
  EXPECT_THAT(names_of(opened), ElementsAre("a", "b", "a/exp_avg", "b/exp_avg", "cold", "mean"));
  EXPECT_THAT(read(opened, "cold"), ElementsAre(4, 5));
  EXPECT_THAT(read(opened, "mean"), ElementsAre(8, 9));
  EXPECT_EQ(opened.tensors()[5].kind, "buffer");
  EXPECT_THAT(opened.tensors()[0].aliases, ElementsAre("tied"));
  ASSERT_EQ(opened.skipped().size(), 2U);
  EXPECT_EQ(opened.skipped()[0].name, "extra");
  EXPECT_EQ(opened.skipped()[1].name, "odd");
}

TEST_F(DeepSpeedFolderTest, TiedParametersOfOldVersionsAreFoundByTheirStorage) {
  write_zero_2();
  File file;
  const std::string shared = file.tensor({0, 0, 0, 0}, {2, 2});
  write("mp_rank_00_model_states.pt", model_file(file, kShapes, {{"head", shared}, {"a", shared}}));
  EXPECT_THAT(source().tensors()[0].aliases, ElementsAre("head"));
}

TEST_F(DeepSpeedFolderTest, FrozenParametersOfZero3AreMergedFromTheModelFilesOfAllRanks) {
  write_zero_3();
  for (int rank = 0; rank < 2; ++rank) {
    File file;
    const Floats part = rank == 0 ? Floats{1, 2} : Floats{3, 0};
    const Texts more{{"frozen_param_shapes", made::ordered_dict({{"cold", size_of({3, 1})}})},
                     {"frozen_param_fragments", made::ordered_dict({{"cold", file.flat(part)}})}};
    write("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_model_states.pt",
          model_file(file, kShapes, {}, {}, more));
  }
  EXPECT_THAT(read(source(), "cold"), ElementsAre(1, 2, 3));
  std::filesystem::remove(folder_.path() / "step12/zero_pp_rank_1_mp_rank_00_model_states.pt");
  EXPECT_THAT(fault(), HasSubstr("frozen parameters, for 2 ranks"));
}

TEST_F(DeepSpeedFolderTest, TheFolderOfOneCheckpointIsReadToo) {
  write_zero_2();
  EXPECT_EQ(DeepSpeedSource(folder_.path() / "step12").tensors().size(), 4U);
}

TEST_F(DeepSpeedFolderTest, FilesOfRanksThatAreMissingAreNamed) {
  write_zero_2();
  write_optimizer(3, zero_2_file({{{1}}, {{1}}}, 4));
  EXPECT_THAT(fault(), HasSubstr("files *_optim_states.pt are missing, of rank 2"));
  std::filesystem::remove(folder_.path() / "step12/bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt");
  std::filesystem::remove(folder_.path() / "step12/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(fault(), HasSubstr("LS-5020"));
  EXPECT_THAT(fault(), HasSubstr("its partition_count is 2, and there are 1 files"));
  std::filesystem::remove(folder_.path() / "step12/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  EXPECT_THAT(fault(), HasSubstr("mp_rank_00_model_states.pt itself"));
}

TEST_F(DeepSpeedFolderTest, AModelFileThatIsMissingIsNamed) {
  write_zero_2();
  std::filesystem::remove(folder_.path() / "step12/mp_rank_00_model_states.pt");
  EXPECT_THAT(fault(), HasSubstr("there is no *mp_rank_00_model_states.pt"));
}

TEST_F(DeepSpeedFolderTest, PartitionsOfAWrongSizeAreNamed) {
  write_zero_2();
  write_optimizer(1, zero_2_file({{{5, 6}}, {{50, 60}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("\"b\" has 3 elements, and only 2 are left for it"));
  write_optimizer(1, zero_2_file({{{5, 6, 7, 8, 9}}, {{5, 6, 7, 8, 9}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("group 0 have 9 elements, its parameters 7"));
  write_optimizer(1, zero_2_file({{{5, 6, 7}}, {{50, 60}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("exp_avg of group 0 has 2 elements"));
}

TEST_F(DeepSpeedFolderTest, PartsOfAWrongSizeAreNamed) {
  write_zero_3();
  write_optimizer(1, zero_3_file({{{3, 4, 7}}, {{3, 4, 7}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("rank 1: \"b\" has 2 elements, and only 1 are left"));
  write_optimizer(1, zero_3_file({{{3, 4, 7, 0, 0}}, {{3, 4, 7, 0, 0}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("rank 1: its partitions have 5 elements, 1 more"));
}

TEST_F(DeepSpeedFolderTest, RanksThatDisagreeAreNamed) {
  write_zero_2();
  write_optimizer(1, zero_3_file({{{5, 6, 7}}, {{5, 6, 7}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("it is of ZeRO 3, that of rank 0 of 2"));
  write_optimizer(1, zero_2_file({{{5}, {6}}, {{5}, {6}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("has 2 groups, that of rank 0 1"));
  write_optimizer(1, zero_2_file({{{5, 6, 7}}, {}}, 2));
  EXPECT_THAT(fault(), HasSubstr("b/exp_avg: its part is missing in group 0"));
  write("zero_pp_rank_1_mp_rank_00_optim_states.pt", zero_2_file({{{5}}, {{5}}}, 2));
  EXPECT_THAT(fault(), HasSubstr("two checkpoints in one folder"));
}

TEST_F(DeepSpeedFolderTest, LatestNamesAFolderBesideItAndNoOther) {
  write_zero_2();
  for (const char* tag : {"../step12", "/etc", "..", ".", "", "step12/x", "gone"}) {
    folder_.write("latest", tag);
    EXPECT_THAT(fault(), HasSubstr("LS-5020")) << tag;
    EXPECT_THAT(fault(), HasSubstr("latest")) << tag;
  }
}

TEST_F(DeepSpeedFolderTest, WhatIsSpreadInOtherWaysIsRefusedByName) {
  write_zero_2();
  for (const char* name :
       {"zero_pp_rank_0_mp_rank_01_optim_states.pt", "mp_rank_01_model_states.pt",
        "layer_00-model_00-model_states.pt", "layer_0_expert_1_mp_rank_00_model_states.pt",
        "expp_rank_0_expert_mp_rank_00_optim_states.pt"}) {
    write(name, "");
    EXPECT_THAT(fault(), HasSubstr("ds_to_universal.py")) << name;
    EXPECT_THAT(fault(), HasSubstr(name)) << name;
    std::filesystem::remove(folder_.path() / "step12" / name);
  }
  EXPECT_EQ(fault(), "");
}

TEST_F(DeepSpeedFolderTest, AFileThatRunsSomethingIsRefused) {
  write_zero_2();
  write_optimizer(
      1, made::torch_file_of(made::pickle(made::reduce(made::global("os", "system"), {})), {}));
  EXPECT_THAT(fault(), HasSubstr("LS-5013"));
}

TEST_F(DeepSpeedFolderTest, WhatIsNotOfTheExpectedFormIsNamed) {
  write_zero_2();
  File file;
  const std::map<std::string, std::string> cases{
      {made::list({}), "no dict optimizer_state_dict"},
      {made::dict({{"optimizer_state_dict", made::dict({{"zero_stage", made::integer(4)},
                                                        {"partition_count", made::integer(2)}})}}),
       "its zero_stage is 4"},
      {made::dict({{"optimizer_state_dict",
                    made::dict({{"zero_stage", made::integer(2)}, {"partition_count", "N"}})}}),
       "its partition_count is -1"},
      {made::dict(
           {{"optimizer_state_dict",
             made::dict({{"zero_stage", made::integer(2)},
                         {"partition_count", made::list({made::integer(2), made::integer(1)})}})}}),
       "experts"},
      {made::dict({{"optimizer_state_dict", made::dict({{"zero_stage", made::integer(2)},
                                                        {"partition_count", made::integer(2)}})}}),
       "no list single_partition_of_fp32_groups"},
      {made::dict({{"optimizer_state_dict", made::dict({{"zero_stage", made::integer(2)},
                                                        {"partition_count", made::integer(2)},
                                                        {"single_partition_of_fp32_groups",
                                                         made::list({made::text("x")})}})}}),
       "single_partition_of_fp32_groups[0] is no flat tensor"}};
  for (const auto& [value, text] : cases) {
    write_optimizer(0, file.of(value));
    EXPECT_THAT(fault(), HasSubstr(text));
    EXPECT_THAT(fault(), HasSubstr("LS-5020"));
  }
}

TEST_F(DeepSpeedFolderTest, AFlatTensorThatRepeatsOneElementIsRefused) {
  write_zero_2();
  const std::string endless =
      made::tensor(made::storage("FloatStorage", "0", 1), 0, {1 << 30}, {0});
  const Texts inner{{"zero_stage", made::integer(2)},
                    {"partition_count", made::integer(2)},
                    {"single_partition_of_fp32_groups", made::list({endless})}};
  write_optimizer(1, made::torch_file_of(
                         made::pickle(made::dict({{"optimizer_state_dict", made::dict(inner)}})),
                         {bytes_of({1})}));
  EXPECT_THAT(fault(), HasSubstr("is no flat tensor"));
}

TEST_F(DeepSpeedFolderTest, ABufferThatRepeatsOneElementWithoutEndIsRefused) {
  write_zero_2();
  const auto with = [&](std::int64_t elements) {
    const std::string endless =
        made::tensor(made::storage("FloatStorage", "0", 1), 0, {elements}, {0});
    const std::string file =
        made::pickle(made::dict({{"module", made::dict({{"mean", endless}})},
                                 {"buffer_names", made::list({made::text("mean")})},
                                 {"param_shapes", made::list({made::ordered_dict(kShapes[0])})}}));
    write("mp_rank_00_model_states.pt", made::torch_file_of(file, {bytes_of({1})}));
    return fault();
  };
  EXPECT_EQ(with(1000), "");
  EXPECT_THAT(with(std::int64_t{1} << 40), HasSubstr("1000 times the bytes of the files"));
}

TEST_F(DeepSpeedFolderTest, MoreKindsOfMomentsThanAnyOptimizerHasAreRefused) {
  write_zero_2();
  const auto with = [&](int kinds) {
    File file;
    Texts moments;
    for (int i = 0; i < kinds; ++i)
      moments.emplace_back("m" + std::to_string(i), file.flat({5, 6, 7}));
    const std::string state =
        made::dict({{"state", "}" + made::integer(0) + made::dict(moments) + "s"}});
    const Texts inner{{"zero_stage", made::integer(2)},
                      {"partition_count", made::integer(2)},
                      {"single_partition_of_fp32_groups", made::list({file.flat({5, 6, 7})})},
                      {"base_optimizer_state", state}};
    write_optimizer(1, file.of(made::dict({{"optimizer_state_dict", made::dict(inner)}})));
    return fault();
  };
  EXPECT_THAT(with(1), HasSubstr("its part is missing"));  // rank 0 has others
  EXPECT_THAT(with(17), HasSubstr("more than 16 kinds of moments"));
}

TEST_F(DeepSpeedFolderTest, NamesOfAnyLengthAreNotTakenAndNoneTwice) {
  write_zero_2();
  const auto with = [&](const Texts& module) {
    File file;
    write("mp_rank_00_model_states.pt", model_file(file, kShapes, module));
    return fault();
  };
  File file;
  EXPECT_EQ(with({{std::string(1024, 'n'), made::text("x")}}), "");
  EXPECT_THAT(with({{std::string(1025, 'n'), made::text("x")}}), HasSubstr("more than 1024 bytes"));
  EXPECT_THAT(with({{"x", "N"}, {"x", "N"}}), HasSubstr("module: two tensors are named x"));
  write("mp_rank_00_model_states.pt",
        file.of(made::dict({{"module", "}" + made::integer(1) + "Ns"},
                            {"buffer_names", made::list({})},
                            {"param_shapes", made::list({made::ordered_dict(kShapes[0])})}})));
  EXPECT_THAT(fault(), HasSubstr("module holds something without a name"));
}

TEST_F(DeepSpeedFolderTest, ParametersWithoutAShapeOrOfOneNameAreRefused) {
  write_zero_2();
  File file;
  const auto with = [&](const std::vector<Texts>& shapes) {
    write("mp_rank_00_model_states.pt", model_file(file, shapes));
    return fault();
  };
  EXPECT_THAT(with({{{"a", made::text("x")}}}), HasSubstr("\"a\" has no shape"));
  EXPECT_THAT(with({{{"a", size_of({-1})}}}), HasSubstr("\"a\" has no shape"));
  EXPECT_THAT(with({{{"a", size_of({std::int64_t{1} << 40, std::int64_t{1} << 40})}}}),
              HasSubstr("\"a\" has no shape"));
  EXPECT_THAT(with({{{"a", size_of({4})}, {"a", size_of({3})}}}),
              HasSubstr("two tensors are named a"));
  EXPECT_THAT(with({{{"a", size_of({4})}}, {{"b", size_of({3})}}}),
              HasSubstr("param_shapes has 2 groups, the optimizer 1"));
}

}  // namespace
}  // namespace lockstep::checkpoint
