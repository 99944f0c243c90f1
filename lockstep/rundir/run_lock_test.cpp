#include "lockstep/rundir/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::rundir {
namespace {

TEST(RunLock, ASecondOneNamesTheHolderAndOtherFoldersAreFree) {
  const test::ScratchFolder scratch;
  std::optional<RunLock> first(scratch.path());
  try {
    const RunLock second(scratch.path());
    FAIL() << "two hold one lock";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().at(0).code, "LS-1031");
    EXPECT_NE(error.problems().at(0).what.find("pid " + std::to_string(::getpid()) + " on "),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.problems().at(0).fix.find("--run-dir"), std::string::npos);
  }
  const test::ScratchFolder other;
  EXPECT_NO_THROW(RunLock{other.path()});
  first.reset();
  EXPECT_NO_THROW(RunLock{scratch.path()});
}

TEST(RunLock, GoesWithItsProcessHoweverThatEnds) {
  const test::ScratchFolder scratch;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(scratch.path());
    (void)!::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunLock{scratch.path()}, UsageError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunLock{scratch.path()});
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLock, AFolderThatIsNotThereIsTheEnvironmentsFault) {
  const test::ScratchFolder scratch;
  EXPECT_THROW(RunLock{scratch.path() / "none"}, EnvironmentFault);
}

}  // namespace
}  // namespace lockstep::rundir
