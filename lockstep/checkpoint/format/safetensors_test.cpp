#include "lockstep/checkpoint/format/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"
#include "tests/support/process_limits.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string json_of(const std::string& header) { return header.substr(kLengthBytes); }

/// What the reader says about this header over `data_bytes`; empty when it takes it.
std::string fault_of(const std::string& json, std::uint64_t data_bytes) {
  try {
    (void)parse_safetensors_header(json, data_bytes, "x.safetensors");
    return "";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5004");
    EXPECT_EQ(error.problems()[0].where, "x.safetensors");
    return error.problems()[0].what;
  }
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const auto tensors = lay_out({{"b", "BF16", {3}},
                                {"z", "F32", {2, 2}},
                                {"a", "F32", {}},
                                {"n", "I64", {1}},
                                {"empty", "F32", {0, 7}}});
  const std::string written = write_safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(written.size() % 8, 0U);
  const auto header = parse_safetensors_header(json_of(written), 8 + 20 + 6, "x");
  EXPECT_EQ(header.data_start, written.size());
  EXPECT_EQ(header.metadata.at("format"), "pt");
  ASSERT_EQ(header.tensors.size(), 5U);
  EXPECT_EQ(header.tensors[0].name, "n");  // the widest elements come first
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_EQ(header.tensors[2].name, "empty");
  EXPECT_EQ(header.tensors[3].name, "z");
  EXPECT_EQ(header.tensors[3].shape, (Shape{2, 2}));
  EXPECT_EQ(header.tensors[4].begin, 28U);
  EXPECT_EQ(header.tensors[4].end, 34U);
}

TEST(Safetensors, NamesAreQuotedWhateverTheyHold) {
  const auto tensors = lay_out({{"a \"quoted\"\n\\name", "U8", {1}}});
  const auto header =
      parse_safetensors_header(json_of(write_safetensors_header(tensors, {})), 1, "x");
  EXPECT_EQ(header.tensors.at(0).name, "a \"quoted\"\n\\name");
}

TEST(Safetensors, AnEmptyFileOfTensorsIsValid) {
  EXPECT_EQ(fault_of("{}", 0), "");
  EXPECT_EQ(fault_of("  {\"__metadata__\":{}}   ", 0), "");
}

TEST(Safetensors, RangesThatDoNotCoverTheDataAreRefused) {
  const std::string a = tensor("a", "U8", "[4]", "[0,4]");
  EXPECT_EQ(fault_of("{" + a + "}", 4), "");
  EXPECT_NE(fault_of("{" + a + "}", 5), "");                                            // trailing
  EXPECT_NE(fault_of("{" + a + "}", 3), "");                                            // truncated
  EXPECT_NE(fault_of("{" + a + "," + tensor("b", "U8", "[4]", "[5,9]") + "}", 9), "");  // hole
  EXPECT_NE(fault_of("{" + a + "," + tensor("b", "U8", "[4]", "[2,6]") + "}", 6), "");  // overlap
  EXPECT_NE(fault_of("{" + a + "," + tensor("b", "U8", "[4]", "[0,4]") + "}", 4), "");  // same
  EXPECT_NE(fault_of("{" + tensor("b", "U8", "[4]", "[4,0]") + "}", 4), "");
}

TEST(Safetensors, SizesThatDoNotFitAreRefusedAndNamed) {
  EXPECT_NE(fault_of("{" + tensor("w", "F32", "[4]", "[0,4]") + "}", 4).find("\"w\""),
            std::string::npos);
  for (const std::string shape : {"[-1]", "[9223372036854775807,9223372036854775807]", "[1e300]",
                                  "[1.0]", "[18446744073709551616]", "[true]", "4", "[[4]]"}) {
    EXPECT_NE(fault_of("{" + tensor("w", "U8", shape, "[0,4]") + "}", 4), "") << shape;
  }
  for (const std::string offsets : {"[0]", "[0,4,4]", "[-4,0]", "[0,9223372036854775808]", "{}"}) {
    EXPECT_NE(fault_of("{" + tensor("w", "U8", "[4]", offsets) + "}", 4), "") << offsets;
  }
  EXPECT_NE(fault_of("{" + tensor("w", "F4", "[3]", "[0,1]") + "}", 1), "");
  EXPECT_NE(fault_of("{" + tensor("w", "X9", "[4]", "[0,4]") + "}", 4), "");
}

TEST(Safetensors, JsonThatIsNotAHeaderIsRefused) {
  const std::string a = tensor("a", "U8", "[0]", "[0,0]");
  EXPECT_NE(fault_of("", 0), "");
  EXPECT_NE(fault_of("[]", 0), "");
  EXPECT_NE(fault_of("{\"a\":1}", 0), "");
  EXPECT_NE(fault_of("{" + a, 0), "");
  EXPECT_NE(fault_of("{" + a + "} x", 0), "");
  EXPECT_NE(fault_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0), "");
  EXPECT_NE(fault_of("{\"__metadata__\":{\"n\":1}}", 0), "");
  EXPECT_NE(fault_of(std::string("{}\0{", 4), 0), "");
  EXPECT_NE(fault_of("{\"\xff\xfe\":1}", 0).find("at byte"), std::string::npos);
  EXPECT_NE(fault_of("{\"a\":{\"x\":" + std::string(100'000, '['), 0).find("too deep"),
            std::string::npos);
}

TEST(Safetensors, FieldsThatNobodyKnowsAreSkipped) {
  const std::string known = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  EXPECT_EQ(fault_of(R"({"a":{"x":null,)" + known + R"(,"y":[1,-2.5,"z",true],"z":{"k":"v"}}})", 1),
            "");
  EXPECT_NE(fault_of(R"({"a":{)" + known + R"(,"y":[[1]]}})", 1).find("too deep"),
            std::string::npos);
  EXPECT_NE(fault_of(R"({"a":{)" + known + R"(,"y":{"k":1,"k":2}}})", 1).find("twice"),
            std::string::npos);
}

TEST(Safetensors, AFieldOfAnotherTypeIsNamed) {
  const auto fault = [](const std::string& fields) {
    return fault_of("{\"a\":{" + fields + "}}", 0);
  };
  EXPECT_NE(fault(R"("dtype":["U8"],"shape":[0],"data_offsets":[0,0])").find("dtype"),
            std::string::npos);
  EXPECT_NE(fault(R"("dtype":7,"shape":[0],"data_offsets":[0,0])").find("dtype"),
            std::string::npos);
  EXPECT_NE(fault(R"("dtype":"U8","shape":{"0":0},"data_offsets":[0,0])").find("shape"),
            std::string::npos);
  EXPECT_NE(fault(R"("dtype":"U8","shape":[0],"data_offsets":"00")").find("data_offsets"),
            std::string::npos);
  EXPECT_NE(fault(R"("shape":[0],"data_offsets":[0,0])").find("\"dtype\" is missing"),
            std::string::npos);
  EXPECT_NE(fault(R"("dtype":"U8","data_offsets":[0,0])").find("\"shape\" is missing"),
            std::string::npos);
  EXPECT_NE(fault_of("{\"a\":[]}", 0).find("not an object"), std::string::npos);
  EXPECT_NE(fault_of("{\"__metadata__\":{\"k\":[]}}", 0).find("__metadata__.k"), std::string::npos);
  EXPECT_NE(fault_of("7", 0).find("not an object"), std::string::npos);
}

TEST(Safetensors, AKeyGivenTwiceIsRefused) {
  const std::string a = tensor("a", "U8", "[0]", "[0,0]");
  EXPECT_NE(fault_of("{" + a + "," + a + "}", 0).find("twice"), std::string::npos);
  EXPECT_NE(fault_of("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],"
                     "\"data_offsets\":[0,0]}}",
                     0),
            "");
  EXPECT_NE(fault_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0).find("twice"),
            std::string::npos);
  EXPECT_NE(fault_of("{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", 0).find("twice"),
            std::string::npos);
}

class SafetensorsFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lockstep-safetensors-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string fault_of_bytes(const std::string& bytes) {
    const fs::path path = folder_ / "x.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      (void)read_safetensors_header(InputFile(path));
      return "";
    } catch (const BadData& error) {
      return error.problems()[0].what;
    }
  }
  fs::path folder_;
};

TEST_F(SafetensorsFile, EveryTruncationIsFound) {
  const auto tensors = lay_out({{"w", "F32", {2}}, {"b", "F32", {1}}});
  const std::string file = write_safetensors_header(tensors, {}) + std::string(12, 'x');
  EXPECT_EQ(fault_of_bytes(file), "");
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_NE(fault_of_bytes(file.substr(0, bytes)), "") << bytes;
  }
  EXPECT_NE(fault_of_bytes(file + "y"), "");
}

TEST_F(SafetensorsFile, AHugeHeaderLengthIsRefusedWithoutReadingIt) {
  EXPECT_NE(fault_of_bytes(std::string(7, '\xff') + "\x7f{}").find("not a safetensors"),
            std::string::npos);
  EXPECT_NE(fault_of_bytes("<!DOCTYPE html>").find("not a safetensors"), std::string::npos);
  EXPECT_NE(fault_of_bytes(std::string(64, '\0')), "");
}

TEST_F(SafetensorsFile, AHeaderBeyondTheLimitIsRefusedWithBothNumbersAndTheFlag) {
  const std::string header = write_safetensors_header(lay_out({{"w", "U8", {4}}}), {});
  const fs::path path = folder_ / "x.safetensors";
  std::ofstream(path, std::ios::binary) << header << "1234";
  const InputFile file(path);
  const std::uint64_t length = header.size() - kLengthBytes;
  const Problem problem =
      test::problem_of<BadData>([&] { (void)read_safetensors_header(file, length - 1); });
  EXPECT_EQ(problem.code, "LS-5004");
  EXPECT_EQ(problem.where, path.string());
  EXPECT_EQ(problem.what, "header of " + std::to_string(length) + " bytes, the limit is " +
                              std::to_string(length - 1) + " (--max-header 100MB raises it)");
  EXPECT_EQ(read_safetensors_header(file, length).tensors.size(), 1U);
}

TEST_F(SafetensorsFile, AHeaderOf132MegabytesNamesARoundLimitThatIsEnough) {
  const std::uint64_t length = 132'095'296;
  const fs::path path = folder_ / "x.safetensors";
  std::string bytes(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  std::ofstream(path, std::ios::binary) << bytes;
  fs::resize_file(path, kLengthBytes + length);  // sparse
  const InputFile file(path);
  EXPECT_EQ(test::problem_of<BadData>([&] { (void)read_safetensors_header(file); }).what,
            "header of 132,095,296 bytes, the limit is 100,000,000 (--max-header 200MB raises it)");
}

TEST_F(SafetensorsFile, AFileOfAnyLengthSaysHowLongItShouldBe) {
  const std::string header = write_safetensors_header(lay_out({{"w", "U8", {4}}}), {});
  const fs::path path = folder_ / "x.safetensors";
  for (const std::string data : {"", "12", "1234", "123456"}) {
    std::ofstream(path, std::ios::binary) << header << data;
    const auto read = read_header_of_any_length(InputFile(path));
    EXPECT_EQ(described_bytes(read), header.size() + 4) << data;
    EXPECT_EQ(read.tensors.at(0).end, 4U);
  }
}

/// The most memory this process ever had.
std::size_t peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss);
}

// A tenth of the largest header seen in the wild: 132 MB, 1.29 million tensors, 1 GiB allowed.
TEST_F(SafetensorsFile, AHeaderOfVeryManyTensorsNeedsLittleMemory) {
  constexpr int kTensors = 129'000;
  const fs::path path = folder_ / "x.safetensors";
  {
    std::string json = "{";
    for (int i = 0; i < kTensors; ++i) {
      json += (i > 0 ? "," : "") +
              tensor("layers." + std::to_string(i) + ".mlp.weight", "BF16", "[3,2]",
                     "[" + std::to_string(i * 12) + "," + std::to_string(i * 12 + 12) + "]");
    }
    json += "}";
    json.append(13'209'529 - json.size(), ' ');
    std::string length(kLengthBytes, '\0');
    for (std::size_t i = 0; i < 4; ++i) length[i] = static_cast<char>(json.size() >> (8 * i));
    std::ofstream(path, std::ios::binary) << length << json;
    fs::resize_file(path, kLengthBytes + json.size() + kTensors * 12);
  }
  const std::size_t before = peak_kib();
  const auto header = read_safetensors_header(InputFile(path));
  EXPECT_EQ(header.tensors.size(), static_cast<std::size_t>(kTensors));
  EXPECT_LE(peak_kib() - before, test::growth_kib(std::size_t{1024} * 1024 / 10));
}

TEST_F(SafetensorsFile, AFolderOrNothingIsNoFile) {
  EXPECT_THROW(InputFile{folder_}, BadData);
  EXPECT_THROW(InputFile{folder_ / "none"}, BadData);
}

}  // namespace
}  // namespace lockstep::checkpoint
