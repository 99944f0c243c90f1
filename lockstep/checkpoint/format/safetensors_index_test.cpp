#include "lockstep/checkpoint/format/safetensors_index.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

std::string fault_of(const std::string& text) {
  try {
    (void)parse_safetensors_index(text, "x.json");
    return "";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5004");
    return error.problems()[0].what;
  }
}

constexpr const char* kWritten = R"({
  "metadata": {
    "total_size": 40
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b \"\u00e9\"": "model-00001-of-00002.safetensors"
  }
}
)";

TEST(SafetensorsIndex, WhatIsWrittenIsReadBackAndTheSame) {
  const SafetensorsIndex index = parse_safetensors_index(kWritten, "x.json");
  EXPECT_EQ(index.total_bytes, 40U);
  ASSERT_EQ(index.files.size(), 2U);
  EXPECT_EQ(index.files[0], "model-00001-of-00002.safetensors");
  ASSERT_EQ(index.entries.size(), 2U);
  EXPECT_EQ(index.entries[0].tensor, "a");
  EXPECT_EQ(index.entries[0].file, 1U);
  EXPECT_EQ(index.entries[1].tensor, "b \"é\"");
  EXPECT_EQ(index.entries[1].file, 0U);
  EXPECT_EQ(write_safetensors_index(index), kWritten);
}

TEST(SafetensorsIndex, AnEmptyMapIsValid) {
  EXPECT_EQ(fault_of(R"({"weight_map":{}})"), "");
  EXPECT_EQ(write_safetensors_index({}),
            "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n");
}

TEST(SafetensorsIndex, WhatElseStandsInItIsSkipped) {
  const auto index = parse_safetensors_index(
      R"({"x":[1,{"weight_map":3}],"metadata":{"total_size":1.5e3,"deep":{"total_size":7}},)"
      R"("weight_map":{"w":"f"},"y":null})",
      "x.json");
  EXPECT_EQ(index.total_bytes, 1500U);
  EXPECT_EQ(index.entries.size(), 1U);
}

TEST(SafetensorsIndex, AMapThatIsNoneIsRefused) {
  EXPECT_EQ(fault_of("{}"), "\"weight_map\" is missing");
  for (const char* text :
       {"", "[]", "3", R"({"weight_map":[]})", R"({"weight_map":"f"})", R"({"weight_map":null})",
        R"({"weight_map":{"w":1}})", R"({"weight_map":{"w":["f"]}})", R"({"weight_map":{"w":{}}})",
        R"({"weight_map":{"w":"f"},"weight_map":{}})", R"({"weight_map":{"w":"f"}} {})"}) {
    EXPECT_NE(fault_of(text), "") << text;
  }
  EXPECT_EQ(fault_of(R"({"weight_map":{"w":"f","w":"f"}})"), "key \"w\" twice");
}

TEST(SafetensorsIndex, AShardOutsideTheFolderIsRefused) {
  for (const char* file : {"../f", "/etc/f", "a/f", "..", ".f", "", "a\\\\f", "a\\u0000f"}) {
    EXPECT_NE(fault_of(std::string(R"({"weight_map":{"w":")") + file + "\"}}"), "") << file;
  }
  EXPECT_NE(fault_of(R"({"weight_map":{"w":")" + std::string(256, 'f') + "\"}}"), "");
}

TEST(ShardName, NumbersHaveFiveDigits) {
  EXPECT_EQ(shard_name("model", 2, 15), "model-00002-of-00015.safetensors");
  EXPECT_EQ(shard_name("m", 100'000, 123'456), "m-100000-of-123456.safetensors");
}

TEST(ShardName, ANameIsTakenApart) {
  const ShardName name = parse_shard_name("a-00001-of-00002-00003-of-00004.safetensors");
  EXPECT_EQ(name.stem, "a-00001-of-00002");
  EXPECT_EQ(name.shard, 3U);
  EXPECT_EQ(name.shards, 4U);
  for (const char* other :
       {"model.safetensors", "model-00001-of-00002.bin", "model-00003-of-00002.safetensors",
        "model-00000-of-00002.safetensors", "-00001-of-00002.safetensors",
        "model-0001-of-00002.safetensors", "model-+0001-of-00002.safetensors",
        "model-00001-of-0000x.safetensors", "00001-of-00002.safetensors", ".safetensors", ""}) {
    EXPECT_EQ(parse_shard_name(other).shards, 0U) << other;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
