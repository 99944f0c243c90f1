#include "lockstep/checkpoint/format/damaged.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

TEST(DamagedFiles, AreNamedInFewWordsWhateverStandsInThem) {
  try {
    throw_damaged("file", "tensor " + std::string(1'000'000, 'n'));
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].what, "tensor " + std::string(1993, 'n') + "...");
  }
  EXPECT_EQ(shortened(std::string(2000, 'x')), std::string(2000, 'x'));
  EXPECT_EQ(shortened(std::string(1999, 'x') + "\xc3\xa9"), std::string(1999, 'x') + "...");
  EXPECT_EQ(shortened(std::string(5000, '\x80')), "...");
}

TEST(DamagedFiles, ALinkThatLeadsToItselfIsOne) {
  const test::ScratchFolder folder;
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  try {
    const InputFile file(folder.path() / "loop");
    FAIL();
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5003");
    EXPECT_EQ(error.problems()[0].what, "a link that leads back to itself");
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
