// What a file or folder that somebody made to break a reader has to meet: every `lockstep ckpt`
// command refuses it with exit code 4, names it, takes little memory and leaves nothing behind.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "tests/support/run_program.h"

namespace lockstep::test {

inline constexpr std::uint64_t kMib = 1ULL << 20U;
inline constexpr std::uint64_t kMostBytesOverBase = 64 * kMib;

inline ProgramResult ckpt(std::vector<std::string> words) {
  words.insert(words.begin(), {program("lockstep"), "ckpt"});
  return run_program(words, {.extra_env = {}, .deadline = std::chrono::seconds(60)});
}

/// A folder and all below it, with sizes and times; links are not followed.
inline std::map<std::string, std::string> listing(const std::filesystem::path& folder) {
  std::map<std::string, std::string> found;
  const auto note = [&](const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    found[path.string()] = std::to_string(status.st_size) + " bytes, of " +
                           std::to_string(status.st_mtim.tv_sec) + "." +
                           std::to_string(status.st_mtim.tv_nsec);
  };
  note(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    note(entry.path());
  }
  return found;
}

/// What the program takes for a file in which there is nothing wrong, or this process does: the
/// system counts that for what it starts.
inline std::uint64_t base_bytes() {
  static const std::uint64_t kBytes = [] {
    const TemporaryFolder folder;
    write_file(folder / "good.pt", checkpoint::made::torch_file_of(
                                       checkpoint::made::pickle(checkpoint::made::dict({})), {}));
    const ProgramResult result = ckpt({"inspect", folder / "good.pt"});
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    return result.peak_rss_bytes;
  }();
  struct rusage own {};
  ::getrusage(RUSAGE_SELF, &own);
  return std::max(kBytes, static_cast<std::uint64_t>(own.ru_maxrss) << 10U);
}

/// What would make a reader run what a file says.
inline constexpr auto kBadAdvice =
    std::to_array<const char*>({"weights_only=False", "weights_only = False", "allow_pickle",
                                "safe_globals", "pickle.load(", "torch.jit.load", "trust"});

inline bool steers_terminal(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == '\x7f';
  });
}

/// \param path file or folder; \param named what messages have to name; \param says what they say.
inline void expect_refused(const TemporaryFolder& folder, const std::string& path,
                           const std::string& named, const std::vector<std::string>& says) {
  const auto before = listing(folder.path());
  for (const std::string command : {"inspect", "verify", "convert"}) {
    std::vector<std::string> words{command, path};
    if (command == "convert") words.push_back(folder / "out.safetensors");
    const ProgramResult result = ckpt(words);
    SCOPED_TRACE(command + ": " + result.describe().substr(0, 4096));
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, testing::HasSubstr(named));
    EXPECT_THAT(result.err, testing::HasSubstr("error LS-"));
    for (const std::string& text : says) EXPECT_THAT(result.err, testing::HasSubstr(text));
    for (const char* advice : kBadAdvice)
      EXPECT_THAT(result.err, testing::Not(testing::HasSubstr(advice)));
    EXPECT_FALSE(steers_terminal(result.err));
    EXPECT_LT(result.err.size(), 8192U);
    EXPECT_LT(result.peak_rss_bytes, base_bytes() + kMostBytesOverBase);
  }
  EXPECT_EQ(listing(folder.path()), before) << "something was made or changed";
}

struct Hostile {
  std::string name;
  std::string bytes;
  std::vector<std::string> says;
};

/// Each as a file of its own, called `file`.
inline void expect_all_refused(const std::vector<Hostile>& table, const std::string& file) {
  for (const Hostile& row : table) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    write_file(folder / file, row.bytes);
    expect_refused(folder, folder / file, folder / file, row.says);
  }
}

inline std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

inline std::string replaced(std::string bytes, std::size_t at, const std::string& by) {
  return bytes.replace(at, by.size(), by);
}

}  // namespace lockstep::test
