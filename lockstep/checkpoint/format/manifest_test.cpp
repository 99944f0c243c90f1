#include "lockstep/checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/checksum.h"

namespace lockstep::checkpoint {
namespace {

Manifest example() {
  Manifest m;
  m.step = 12;
  m.epoch = 1;
  m.sample = 640;
  m.skipped_steps = 2;
  m.seed = -7;
  m.config_hash = "abc";
  m.config_json = R"({"run":{"name":"a \"b\""},"list":[1,2]})";
  m.world_size = 2;
  m.layout = "data=2";
  m.versions = {{"lockstep", "0.1.0"}};
  m.file_bytes = {{"model.safetensors", 1000}};
  m.tensors = {{"w",
                "parameter",
                "F32",
                {4, 2},
                {"head.w"},
                {{"model.safetensors", {0, 0}, {1, 2}, 100, 8, {0x1234}},
                 {"model.safetensors", {1, 0}, {3, 2}, 108, 24, {~0ULL}}}},
               {"seen", "buffer", "I64", {}, {}, {{"model.safetensors", {}, {}, 132, 8, {5}}}}};
  return m;
}

/// `from` replaced in the example's text, without regard for the checksum.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = write_manifest(example());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string fault_of(const std::string& text) {
  try {
    (void)parse_manifest_unsummed(text, "manifest.json");
    return "";
  } catch (const BadData& error) {
    return error.problems()[0].what;
  }
}

std::string code_of(const std::string& text) {
  try {
    (void)parse_manifest(text, "manifest.json");
    return "";
  } catch (const BadData& error) {
    return error.problems()[0].code;
  }
}

TEST(Manifest, WhatIsWrittenIsReadBack) {
  const Manifest m = parse_manifest(write_manifest(example()), "manifest.json");
  EXPECT_EQ(m.step, 12);
  EXPECT_EQ(m.epoch, 1);
  EXPECT_EQ(m.sample, 640);
  EXPECT_EQ(m.skipped_steps, 2);
  EXPECT_EQ(m.loss_scale, 0) << "no loss was scaled";
  EXPECT_EQ(m.seed, -7);
  EXPECT_EQ(m.config_hash, "abc");
  EXPECT_EQ(m.world_size, 2);
  EXPECT_EQ(m.layout, "data=2");
  EXPECT_EQ(m.versions, example().versions);
  EXPECT_EQ(m.file_bytes, example().file_bytes);
  ASSERT_EQ(m.tensors.size(), 2U);
  EXPECT_EQ(m.tensors[0].aliases, std::vector<std::string>{"head.w"});
  EXPECT_EQ(m.tensors[0].pieces[1].offset, (Shape{1, 0}));
  EXPECT_EQ(m.tensors[0].pieces[1].checksums, std::vector<std::uint64_t>{~0ULL});
  EXPECT_EQ(write_manifest(m).size(), write_manifest(example()).size());
}

/// Version 1 had one checksum a piece, whatever its length.
TEST(Manifest, APieceWithOneChecksumIsOneBlock) {
  const Manifest m = parse_manifest_unsummed(
      edited(R"("xxh3":["0000000000001234"])", R"("xxh3":"0000000000001234")"), "manifest.json");
  EXPECT_EQ(m.tensors[0].pieces[0].checksums, std::vector<std::uint64_t>{0x1234});
  EXPECT_EQ(m.tensors[0].pieces[0].block_bytes, 8U);
}

TEST(Manifest, EveryBlockHasItsChecksum) {
  EXPECT_NE(fault_of(edited(R"("xxh3":["0000000000001234"])", R"("xxh3":[])")), "");
  EXPECT_NE(
      fault_of(edited(R"(["0000000000001234"])", R"(["0000000000001234","0000000000001234"])")),
      "");
  EXPECT_NE(fault_of(edited(R"(["0000000000001234"])", R"(["1234"])")), "");
}

TEST(Manifest, APieceIsToldToAnotherRankAndBack) {
  const Piece piece = example().tensors[0].pieces[1];
  const Piece told = piece_from_json(piece_to_json(piece));
  EXPECT_EQ(told.file, piece.file);
  EXPECT_EQ(told.offset, piece.offset);
  EXPECT_EQ(told.shape, piece.shape);
  EXPECT_EQ(told.byte_offset, piece.byte_offset);
  EXPECT_EQ(told.byte_count, piece.byte_count);
  EXPECT_EQ(told.checksums, piece.checksums);
}

TEST(Manifest, ALossScaleIsKeptWithItsGoodSteps) {
  Manifest fp16 = example();
  fp16.loss_scale = 0.1;  // not a binary fraction: the text must carry all its digits
  fp16.good_steps = 1999;
  const std::string text = write_manifest(fp16);
  const Manifest m = parse_manifest(text, "manifest.json");
  EXPECT_EQ(m.loss_scale, 0.1);
  EXPECT_EQ(m.good_steps, 1999);
  EXPECT_EQ(write_manifest(example()).find("loss_scale"), std::string::npos);
  for (const char* bad : {"0", "-1.0", "\"large\"", "1e999"}) {
    std::string changed = text;
    changed.replace(changed.find("0.1"), 3, bad);
    EXPECT_NE(fault_of(changed), "") << bad;
  }
}

TEST(Manifest, TheConfigurationComesBackAsItWas) {
  const Manifest m = parse_manifest(write_manifest(example()), "manifest.json");
  EXPECT_EQ(m.config_json, R"({"list":[1,2],"run":{"name":"a \"b\""}})");
}

TEST(Manifest, AnyChangedByteIsFoundByItsOwnChecksum) {
  const std::string text = write_manifest(example());
  EXPECT_EQ(code_of(text), "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(code_of(changed), "") << i;
  }
  EXPECT_EQ(code_of(edited("\"step\":12", "\"step\":13")), "LS-5005");
}

TEST(Manifest, EveryTruncationIsFound) {
  const std::string text = write_manifest(example());
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_NE(code_of(text.substr(0, bytes)), "") << bytes;
  }
}

TEST(Manifest, AnotherProgramsJsonIsNoManifest) {
  EXPECT_EQ(code_of("{}"), "LS-5003");
  EXPECT_EQ(code_of("<!DOCTYPE html>"), "LS-5003");
  EXPECT_NE(fault_of(edited("lockstep-checkpoint", "other")).find("not a checkpoint"),
            std::string::npos);
}

TEST(Manifest, ANewerFormatIsSaidToBeNewer) {
  try {
    (void)parse_manifest_unsummed(edited("\"format_version\":2", "\"format_version\":9"), "m");
    FAIL();
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5007");
  }
}

TEST(Manifest, AFileNameCannotLeadOutOfTheFolder) {
  for (const std::string name : {"../model", "/etc/passwd", "a/b", ".hidden", "", "a\\u0000b"}) {
    EXPECT_NE(fault_of(edited("{\"model.safetensors\":1000}", "{\"" + name + "\":1000}"))
                  .find("plain file name"),
              std::string::npos)
        << name;
  }
}

TEST(Manifest, PiecesMustLieInTheirFileAndCoverTheirTensor) {
  EXPECT_EQ(fault_of(edited("\"step\":12", "\"step\":13")), "");
  EXPECT_NE(fault_of(edited(":1000}", ":120}")).find("outside"), std::string::npos);
  EXPECT_NE(fault_of(edited("\"byte_offset\":100", "\"byte_offset\":9223372036854775807")), "");
  EXPECT_NE(fault_of(edited("\"shape\":[3,2]", "\"shape\":[2,2]")), "");
  EXPECT_NE(fault_of(edited("\"offset\":[1,0]", "\"offset\":[0,0]")).find("overlap"),
            std::string::npos);
  EXPECT_NE(fault_of(edited("\"file\":\"model", "\"file\":\"mode")).find("list of files"),
            std::string::npos);
  EXPECT_NE(fault_of(edited("\"xxh3\":[\"0000000000001234\"]", "\"xxh3\":\"12\"")), "");
}

TEST(Manifest, FieldsOfTheWrongTypeAreNamed) {
  EXPECT_NE(fault_of(edited("\"step\":12", "\"step\":-1")).find("step"), std::string::npos);
  EXPECT_NE(fault_of(edited("\"step\":12", "\"step\":\"12\"")).find("step"), std::string::npos);
  EXPECT_NE(fault_of(edited("\"epoch\":1", "\"epoch\":1e9")).find("position.epoch"),
            std::string::npos);
  EXPECT_NE(fault_of(edited("\"sample\"", "\"simple\"")).find("missing"), std::string::npos);
  EXPECT_NE(fault_of(edited("\"name\":\"seen\"", "\"name\":\"w\"")).find("twice"),
            std::string::npos);
  EXPECT_NE(fault_of(edited("\"dtype\":\"I64\"", "\"dtype\":\"I63\"")), "");
  EXPECT_NE(fault_of(edited("\"config\":{", "\"config\":[{").append("]")), "");
}

TEST(Checksum, HexIsSixteenLowerCaseDigits) {
  EXPECT_EQ(to_hex(0xabcdefULL), "0000000000abcdef");
  EXPECT_EQ(from_hex("0000000000abcdef"), 0xabcdefULL);
  EXPECT_EQ(from_hex("0000000000ABCDEF"), std::nullopt);
  EXPECT_EQ(from_hex("abc"), std::nullopt);
  EXPECT_EQ(to_hex(checksum("")), "2d06800538d394c2");  // XXH3 of nothing, seed 0
}

}  // namespace
}  // namespace lockstep::checkpoint
