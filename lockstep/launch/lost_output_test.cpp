#include "lockstep/launch/lost_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {
namespace {

/// Standard output is `fd` while this lives.
class StdoutAs {
 public:
  explicit StdoutAs(int fd) : before_(::dup(STDOUT_FILENO)) { ::dup2(fd, STDOUT_FILENO); }
  StdoutAs(const StdoutAs&) = delete;
  StdoutAs& operator=(const StdoutAs&) = delete;
  ~StdoutAs() { ::dup2(before_.get(), STDOUT_FILENO); }

 private:
  Fd before_;
};

TEST(LostOutput, AFullDeviceIsToldOnce) {
  std::vector<Problem> told;
  LostOutput lost([&](const Problem& problem) { told.push_back(problem); });
  {
    const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    const StdoutAs output(full.get());
    lost.write(STDOUT_FILENO, "one\n");
    lost.write(STDOUT_FILENO, "two\n");
  }
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].code, "LS-3008");
  EXPECT_EQ(told[0].where, "standard output");
  EXPECT_EQ(told[0].what, "what ranks print cannot be written: No space left on device");
  EXPECT_EQ(lost.problems(), told);
}

TEST(LostOutput, AReaderThatHasLeftIsNoFault) {
  LostOutput lost;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  read_end.reset();
  ::signal(SIGPIPE, SIG_IGN);
  {
    const StdoutAs output(write_end.get());
    lost.write(STDOUT_FILENO, "one\n");
  }
  ::signal(SIGPIPE, SIG_DFL);
  EXPECT_TRUE(lost.problems().empty());
}

TEST(LostOutput, ALogFileThatFailsIsNamedAndTheOthersAreCounted) {
  std::vector<Problem> told;
  LostOutput lost([&](const Problem& problem) { told.push_back(problem); });
  for (const char* file : {"/a", "/b", "/a", "/c"}) lost.lose_file(file, ENOSPC);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].where, "/a");
  ASSERT_EQ(lost.problems().size(), 1U);
  EXPECT_NE(lost.problems()[0].what.find("2 other log files"), std::string::npos);
}

TEST(WriteWhole, WaitsForASlowReaderOfAStreamThatDoesNotBlock) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = ::read(read_end.get(), part.data(), part.size())) > 0;) {
      got.append(part.data(), static_cast<std::size_t>(n));
    }
  });
  EXPECT_EQ(write_whole(write_end.get(), text), 0);
  write_end.reset();
  reader.join();
  EXPECT_EQ(got.size(), text.size());
}

}  // namespace
}  // namespace lockstep::launch
