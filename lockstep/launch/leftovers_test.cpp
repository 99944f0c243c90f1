#include "lockstep/launch/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using test::ScratchFolder;
using ::testing::IsEmpty;

/// A folder like /proc of a machine that is up for 1000 seconds.
class Machine {
 public:
  Machine() {
    folder_.write("uptime", "1000.00 3000.00\n");
    add(1, 0, "systemd", "/sbin/init", "");
  }

  void add(int pid, int parent, const std::string& name, std::string command,
           const std::string& environment) {
    const std::string folder = std::to_string(pid);
    std::filesystem::create_directory(folder_.path() / folder);
    // 900 s after the machine's start, where a second has 100 ticks.
    folder_.write(folder + "/stat", folder + " (" + name + ") S " + std::to_string(parent) +
                                        " 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 90000 1 2\n");
    for (char& c : command) c = c == ' ' ? '\0' : c;
    folder_.write(folder + "/cmdline", command);
    folder_.write(folder + "/environ", environment);
  }

  [[nodiscard]] std::vector<Leftover> leftovers() const { return find_leftovers(folder_.path()); }

 private:
  ScratchFolder folder_;
};

std::string rank_environment() {
  return std::string("HOME=/\0TORCHELASTIC_RUN_ID=fashion 7\0RANK=0\0", 45);
}

TEST(Leftovers, ARankWhoseLauncherIsGoneIsListedWithWhatEndsIt) {
  Machine machine;
  machine.add(70, 1, "python3 (x)", "python3 -u train.py", rank_environment());
  const auto found = machine.leftovers();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].pid, 70);
  EXPECT_EQ(found[0].run_id, "fashion 7");
  EXPECT_EQ(
      to_text(found[0]),
      "left over from an earlier job: process 70, python3 -u train.py, started 1 min 40 s ago "
      "by run 'fashion 7'; `kill 70` ends it");
}

TEST(Leftovers, RanksOfALiveJobAndOtherOrphansAreNot) {
  Machine machine;
  machine.add(60, 1, "bash", "bash", "HOME=/");
  machine.add(70, 60, "lockstep", "lockstep launch train.py", "HOME=/");
  machine.add(71, 70, "python3", "python3 -u train.py", rank_environment());
  machine.add(72, 71, "python3", "a worker of 71", rank_environment());
  machine.add(80, 1, "daemon", "daemon", std::string("NOT_TORCHELASTIC_RUN_ID=1\0", 26));
  EXPECT_THAT(machine.leftovers(), IsEmpty());
}

TEST(Leftovers, ALauncherThatIsTheFirstProcessOfItsContainerIsNoOrphanage) {
  Machine machine;
  machine.add(70, 5, "python3", "python3 -u train.py", rank_environment());
  machine.add(5, 0, "init", "python3 /usr/bin/torchrun train.py", "");
  EXPECT_THAT(machine.leftovers(), IsEmpty());
}

TEST(Leftovers, AManagerOfAUsersServicesTakesOrphansInToo) {
  Machine machine;
  machine.add(40, 1, "systemd", "/lib/systemd/systemd --user", "");
  machine.add(70, 40, "python3", "python3 -u train.py", rank_environment());
  EXPECT_EQ(machine.leftovers().size(), 1U);
}

}  // namespace
}  // namespace lockstep::launch
