#include "lockstep/comm/records/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

TEST(ProcessState, ReadsTheStateBehindANameWithBlanksAndBrackets) {
  const std::string tail = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
  EXPECT_EQ(look_at_stat("12 (a) R (b) S" + tail, 4711).letter, 'S');
  EXPECT_EQ(look_at_stat("12 (a) T" + tail, 4711).state, ProcessState::stopped);
  EXPECT_EQ(look_at_stat("12 (a) t" + tail, 4711).state, ProcessState::stopped);
  EXPECT_EQ(look_at_stat("12 (a) Z" + tail, 4711).state, ProcessState::gone);
  EXPECT_EQ(look_at_stat("12 (a) R" + tail, 4712).state, ProcessState::gone) << "pid used again";
  EXPECT_EQ(look_at_stat("", 4711).state, ProcessState::gone);
  EXPECT_EQ(look_at_stat("nonsense", 4711).state, ProcessState::unknown);
}

TEST(ProcessState, FollowsAProcessThroughItsLife) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const ProcessIdentity own = own_identity();
  EXPECT_EQ(look_at(own, own).state, ProcessState::running);
  ProcessIdentity other = own;
  other.pid = child;
  other.start_ticks = 0;  // whatever it is
  EXPECT_EQ(look_at(other, own).state, ProcessState::running);
  int status = 0;
  ::kill(child, SIGSTOP);
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(look_at(other, own).letter, 'T');
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_EQ(look_at(other, own).state, ProcessState::gone);
}

TEST(ProcessState, OfAnotherHostOrNamespaceIsUnknown) {
  const ProcessIdentity own = own_identity();
  EXPECT_FALSE(own.boot_id.empty());
  EXPECT_GT(own.start_ticks, 0);
  ProcessIdentity other = own;
  other.boot_id = "elsewhere";
  EXPECT_EQ(look_at(other, own).state, ProcessState::unknown);
  other = own;
  ++other.pid_namespace;
  EXPECT_EQ(look_at(other, own).state, ProcessState::unknown);
}

}  // namespace
}  // namespace lockstep::comm
