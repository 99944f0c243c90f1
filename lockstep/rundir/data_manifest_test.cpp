#include "lockstep/rundir/data_manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

config::DataSection of(const fs::path& train, const fs::path& eval = {}) {
  config::DataSection data;
  data.train = train.string();
  data.eval = eval.string();
  return data;
}

TEST(DataManifest, IsTheSameForTheSameFilesElsewhere) {
  const test::ScratchFolder here;
  const test::ScratchFolder there;
  for (const fs::path& folder : {here.path(), there.path()}) {
    put(folder / "train/b.bin", "12345");
    put(folder / "train/sub/a.bin", "1");
    put(folder / "eval.bin", "123");
  }
  const std::string first = data_manifest(of(here.path() / "train", here.path() / "eval.bin"));
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(first, data_manifest(of(there.path() / "train", there.path() / "eval.bin")));
}

TEST(DataManifest, DiffersWhenAFileIsMissingLongerOrNamedOtherwise) {
  const test::ScratchFolder folder;
  const fs::path train = folder.path() / "train";
  put(train / "a.bin", "1");
  put(train / "b.bin", "12345");
  const std::string first = data_manifest(of(train));
  put(train / "b.bin", "123456");
  const std::string longer = data_manifest(of(train));
  EXPECT_NE(longer, first);
  fs::rename(train / "b.bin", train / "c.bin");
  const std::string renamed = data_manifest(of(train));
  EXPECT_NE(renamed, longer);
  fs::remove(train / "c.bin");
  EXPECT_NE(data_manifest(of(train)), renamed);
  EXPECT_NE(data_manifest(of(train, train / "a.bin")), data_manifest(of(train)));
}

TEST(DataManifest, IsEmptyWhereThereAreNoFiles) {
  EXPECT_EQ(data_manifest(of("")), "");
  EXPECT_EQ(data_manifest(of("!printf abc")), "");
  EXPECT_EQ(data_manifest(of("/nowhere/at/all")), "");
}

}  // namespace
}  // namespace lockstep::rundir
