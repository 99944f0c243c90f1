#include "lockstep/checkpoint/format/step_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/tensor_file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

constexpr const char* kFile = "model.safetensors";

std::vector<std::byte> ramp(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 31 + 7);
  return values;
}

/// A checkpoint of two tensors, w (F32 [4, 2]) and b (BF16 [3]).
fs::path write_step(const fs::path& dir) {
  StepDraft draft(dir, 3);
  Manifest manifest;
  manifest.step = 3;
  manifest.config_json = "{}";
  TensorFile file(draft.path() / kFile, {{"b", "BF16", {3}}, {"w", "F32", {4, 2}}}, {});
  for (const TensorInfo& info : file.tensors()) {
    manifest.tensors.push_back({info.name,
                                "parameter",
                                info.dtype,
                                info.shape,
                                {},
                                {file.write(ramp(info.end - info.begin))}});
  }
  manifest.file_bytes[kFile] = file.commit();
  std::ofstream(draft.path() / kManifestName) << write_manifest(manifest);
  return draft.commit();
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void spill(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string only_code(const std::vector<Problem>& problems) {
  EXPECT_EQ(problems.size(), 1U);
  return problems.empty() ? "" : problems[0].code;
}

TEST(StepReader, TensorsComeBackAsTheyWereWritten) {
  const ScratchFolder scratch;
  const StepReader reader(write_step(scratch.path()));
  ASSERT_EQ(reader.manifest().tensors.size(), 2U);
  for (const ManifestTensor& tensor : reader.manifest().tensors) {
    std::vector<std::byte> bytes(tensor.pieces.at(0).byte_count);
    reader.read(tensor, tensor.pieces[0], bytes);
    EXPECT_EQ(bytes, ramp(bytes.size())) << tensor.name;
  }
}

TEST(StepReader, AWholeCheckpointVerifies) {
  const ScratchFolder scratch;
  EXPECT_TRUE(verify_step(write_step(scratch.path())).empty());
}

TEST(StepReader, AFlippedBitIsFoundWithFileTensorAndOffset) {
  const ScratchFolder scratch;
  const fs::path step = write_step(scratch.path());
  std::string bytes = slurp(step / kFile);
  bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 4);  // in w
  spill(step / kFile, bytes);
  const auto problems = verify_step(step);
  ASSERT_EQ(only_code(problems), "LS-5005");
  EXPECT_EQ(problems[0].where, (step / kFile).string());
  EXPECT_NE(problems[0].what.find("\"w\""), std::string::npos);
  EXPECT_NE(problems[0].what.find(std::to_string(bytes.size() - 38)), std::string::npos);
}

TEST(StepReader, EveryChangedByteAndEveryTruncationIsFound) {
  const ScratchFolder scratch;
  const fs::path step = write_step(scratch.path());
  const std::string whole = slurp(step / kFile);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    spill(step / kFile, changed);
    EXPECT_FALSE(verify_step(step).empty()) << "byte " << i;
  }
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    spill(step / kFile, whole.substr(0, bytes));
    EXPECT_FALSE(verify_step(step).empty()) << "cut to " << bytes;
  }
}

TEST(StepReader, AHeaderThatContradictsTheManifestIsDamage) {
  const ScratchFolder scratch;
  const fs::path step = write_step(scratch.path());
  const std::string whole = slurp(step / kFile);
  for (const auto& [from, to] :
       {std::pair("\"b\"", "\"c\""), std::pair("BF16", "U16 "), std::pair("[4,2]", "[2,4]")}) {
    std::string changed = whole;
    changed.replace(changed.find(from), std::string(from).size(), to);
    spill(step / kFile, changed);
    EXPECT_EQ(only_code(verify_step(step)), "LS-5004") << from;
  }
}

TEST(StepReader, BytesOfAFileAreInATensorOnce) {
  const ScratchFolder scratch;
  const fs::path step = write_step(scratch.path());
  Manifest manifest = read_manifest(step);
  ManifestTensor& w =
      manifest.tensors.at(1).name == "w" ? manifest.tensors[1] : manifest.tensors[0];
  w.shape[0] *= 2;
  w.pieces.push_back(w.pieces[0]);
  w.pieces[1].offset[0] = 4;
  spill(step / kManifestName, write_manifest(manifest));
  const auto problems = verify_step(step);
  ASSERT_EQ(only_code(problems), "LS-5004");
  EXPECT_NE(problems[0].what.find("\"w\": two pieces in model.safetensors"), std::string::npos);
}

TEST(StepReader, AMissingFileOrFolderIsNoCheckpoint) {
  const ScratchFolder scratch;
  const fs::path step = write_step(scratch.path());
  fs::remove(step / kFile);
  EXPECT_EQ(only_code(verify_step(step)), "LS-5003");
  fs::remove(step / kManifestName);
  EXPECT_EQ(only_code(verify_step(step)), "LS-5003");
  EXPECT_EQ(only_code(verify_step(scratch.path() / "none")), "LS-5003");
}

}  // namespace
}  // namespace lockstep::checkpoint
