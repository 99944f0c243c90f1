#include "lockstep/checkpoint/format/disk_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::HasSubstr;
using testing::Not;

Problem problem_of(int error, const DiskUse& use) {
  const fs::filesystem_error answer("cannot write", use.folder / "file",
                                    {error, std::generic_category()});
  return disk_fault(answer, use).problems().front();
}

TEST(DiskFault, EveryAnswerHasPathNeedFreeAndWhatToDo) {
  const ScratchFolder scratch;
  struct Case {
    int error;
    const char* code;
    const char* reason;
    const char* fix;
  };
  for (const Case& one : {Case{ENOSPC, "LS-5001", "No space left", "free some space"},
                          Case{EDQUOT, "LS-5001", "quota", "quota -s"},
                          Case{EROFS, "LS-5002", "read-only", "mount it writable"},
                          Case{ESTALE, "LS-5002", "stale handle", "mount the network"},
                          Case{EIO, "LS-5002", "reports an error", "dmesg"},
                          Case{ETIMEDOUT, "LS-5002", "does not answer", "server"},
                          Case{EACCES, "LS-5002", "may not", "permissions"},
                          Case{EPERM, "LS-5002", "may not", "permissions"},
                          Case{ENAMETOOLONG, "LS-5002", "File name too long", "look after"}}) {
    const Problem problem = problem_of(one.error, {scratch.path(), 4'000'000});
    EXPECT_EQ(problem.code, one.code);
    EXPECT_EQ(problem.where, scratch.file("file"));
    EXPECT_THAT(problem.what, HasSubstr(one.reason));
    EXPECT_THAT(problem.what, HasSubstr("the checkpoint needs 4.00 MB, free are "));
    EXPECT_THAT(problem.what, HasSubstr("(cannot write: "));
    EXPECT_THAT(problem.what, Not(HasSubstr("filesystem error")));
    EXPECT_THAT(problem.fix, HasSubstr(one.fix));
    EXPECT_THAT(problem.fix, HasSubstr(", or write to another disk"));
  }
}

TEST(DiskFault, AFullDiskThatReportsSpaceIsExplained) {
  const ScratchFolder scratch;
  EXPECT_THAT(problem_of(ENOSPC, {scratch.path(), 1}).what, HasSubstr("one of the disks"));
  constexpr std::uint64_t kMore = std::uint64_t{1} << 60;
  EXPECT_THAT(problem_of(ENOSPC, {scratch.path(), kMore}).what, Not(HasSubstr("one of the disks")));
}

TEST(DiskFault, WithoutANeedOrAPathItSaysWhatItKnows) {
  const ScratchFolder scratch;
  const fs::filesystem_error answer("cannot open", {EIO, std::generic_category()});
  const Problem problem =
      disk_fault(answer, {scratch.path(), 0, "name another folder"}).problems().front();
  EXPECT_EQ(problem.where, scratch.path());
  EXPECT_THAT(problem.what, HasSubstr("; free are "));
  EXPECT_THAT(problem.what, Not(HasSubstr("needs")));
  EXPECT_THAT(problem.fix, HasSubstr(", or name another folder"));
}

TEST(DiskFault, RoomIsLookedForWhereAFolderWillBe) {
  const ScratchFolder scratch;
  const fs::path later = scratch.path() / "not/yet";
  EXPECT_NO_THROW(require_room({later, 1}));
  const Problem problem = test::problem_of<EnvironmentFault>([&] {
    require_room({later, std::uint64_t{1} << 50});
  });
  EXPECT_EQ(problem.code, "LS-5001");
  EXPECT_EQ(problem.where, scratch.path());
  EXPECT_THAT(problem.what, HasSubstr("No space left on the disk; the checkpoint needs 1.13 PB"));
}

}  // namespace
}  // namespace lockstep::checkpoint
