// That nothing which should be compiled, run or present is left out in silence.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> compiled_files() {
  std::ifstream in(fs::path(LOCKSTEP_BINARY_DIR) / "compile_commands.json");
  std::set<std::string> compiled;
  for (const auto& command : nlohmann::json::parse(in)) {
    compiled.insert(fs::relative(command.at("file").get<std::string>(), root()).string());
  }
  return compiled;
}

/// Whether a build without LibTorch has this file too.
bool is_torch_free(const std::string& path) {
  if (path.starts_with("lockstep/")) return !layers().at(folder_of(path)).links_torch;
  return path.starts_with("tests/architecture/") || path.starts_with("tests/fuzz/") ||
         path.starts_with("tests/oracles/") || path.starts_with("tests/validation/");
}

/// Whether a build with CUDA has this file, or one without.
bool fits_cuda(const std::string& path, bool with_cuda) {
  const std::string name = fs::path(path).filename();
  if (path.starts_with("tests/gpu/") || name.starts_with("nccl_")) return with_cuda;
  return !name.starts_with("without_nccl") || !with_cuda;
}

TEST(Targets, EverySourceIsCompiledByThisBuild) {
  const auto compiled = compiled_files();
  const bool with_torch = std::any_of(compiled.begin(), compiled.end(), [](const auto& path) {
    return path.ends_with("tensor_pch.cpp");
  });
  for (const auto& file : all_files()) {
    const bool ours = file.path.starts_with("lockstep/") || file.path.starts_with("tests/");
    if (!ours || !file.path.ends_with(".cpp")) continue;
    if (!with_torch && !is_torch_free(file.path)) continue;
    if (!fits_cuda(file.path, compiled.contains("lockstep/comm/nccl_group.cpp"))) continue;
    EXPECT_TRUE(compiled.contains(file.path)) << file.path << " is in no target";
  }
}

TEST(Targets, EveryFuzzTargetHasACorpus) {
  for (const auto& file : all_files()) {
    if (!file.path.ends_with("_fuzz.cpp")) continue;
    std::string name = file.path.substr(std::string("lockstep/").size());
    name = std::regex_replace(name, std::regex("_fuzz\\.cpp$"), "");
    name = std::regex_replace(name, std::regex("/"), "_");
    const fs::path corpus = root() / "tests/fuzz/corpus" / name;
    EXPECT_TRUE(fs::is_directory(corpus) && !fs::is_empty(corpus)) << corpus;
  }
}

TEST(Targets, EveryExampleHasAConfigurationOrAProjectAndAPage) {
  for (const auto& example : fs::directory_iterator(root() / "examples")) {
    EXPECT_TRUE(fs::exists(example.path() / "README.md")) << example.path();
    EXPECT_TRUE(fs::exists(example.path() / "run.toml") ||
                fs::exists(example.path() / "CMakeLists.txt"))
        << example.path();
  }
}

TEST(Targets, NoTestSkipsItself) {
  const std::regex skip(std::string("GTEST_") + "SKIP|TEST(_F|_P)?\\(\\w+, *DIS" + "ABLED_");
  for (const auto& file : all_files()) {
    if (!file.is_cpp() || !file.is_test()) continue;
    EXPECT_FALSE(std::regex_search(file.text, skip)) << file.path;
  }
}

TEST(Targets, OnlyScriptsAreExecutable) {
  for (const auto& file : all_files()) {
    EXPECT_EQ(file.executable, file.text.starts_with("#!")) << file.path;
  }
}

TEST(Targets, NoFileIsLargerThanAMebibyte) {
  for (const auto& file : all_files()) EXPECT_LE(file.text.size(), 1U << 20) << file.path;
}

}  // namespace
}  // namespace lockstep::test
