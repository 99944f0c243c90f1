#include "lockstep/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "atomic-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(AtomicFile& file, std::string_view text) {
    file.write(std::as_bytes(std::span(text)));
  }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsWholeOnCommit) {
  AtomicFile file(folder_ / "plan.json");
  write(file, "one ");
  write(file, "two");
  EXPECT_FALSE(fs::exists(folder_ / "plan.json"));
  file.commit();
  EXPECT_EQ(read(folder_ / "plan.json"), "one two");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  std::ofstream(folder_ / "plan.json") << "old";
  {
    AtomicFile file(folder_ / "plan.json");
    write(file, "half");
  }
  EXPECT_EQ(read(folder_ / "plan.json"), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, TakesThePlaceOfAnOldFile) {
  std::ofstream(folder_ / "plan.json") << "old and long";
  AtomicFile file(folder_ / "plan.json");
  write(file, "new");
  file.commit();
  EXPECT_EQ(read(folder_ / "plan.json"), "new");
}

TEST_F(AtomicFileTest, AMissingFolderIsReported) {
  EXPECT_THROW(AtomicFile(folder_ / "none" / "plan.json"), fs::filesystem_error);
}

TEST_F(AtomicFileTest, ATargetThatIsAFolderIsReportedAndNothingIsLeft) {
  fs::create_directory(folder_ / "plan.json");
  EXPECT_THROW(AtomicFile(folder_ / "plan.json"), fs::filesystem_error);
  EXPECT_EQ(files(), 1U);
}

/// A device or a pipe in its place would be gone.
TEST_F(AtomicFileTest, NothingButARegularFileIsReplaced) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ / "link");
  EXPECT_THROW(AtomicFile(folder_ / "pipe"), fs::filesystem_error);
  EXPECT_THROW(AtomicFile(folder_ / "link"), fs::filesystem_error);
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(files(), 2U);
}

}  // namespace
}  // namespace lockstep
