#include "lockstep/rendezvous/reach.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;

BindTest test_of(const Endpoint& endpoint) {
  return test_bind(endpoint, resolve(endpoint.host, endpoint.port));
}

TEST(BindTest, TellsWhoseAnAddressIs) {
  const BindTest free = test_of({"127.0.0.1", 0});
  EXPECT_EQ(free.result, BindTest::Result::bound);
  EXPECT_TRUE(free.only_loopback);
  const Listener other = listen_on("127.0.0.1", 0);
  EXPECT_EQ(test_of({"127.0.0.1", other.port}).result, BindTest::Result::in_use);
  EXPECT_EQ(test_of({"192.0.2.1", 29400}).result, BindTest::Result::elsewhere);
}

TEST(Reach, EndsOnceSomebodyListens) {
  const int port = listen_on("127.0.0.1", 0).port;
  Listener late;
  std::thread starting([&] { late = listen_on("127.0.0.1", port); });
  EXPECT_TRUE(reach({"127.0.0.1", port}, {}, {}, -1));
  starting.join();
}

TEST(Reach, ARefusalIsWaitedOutAsLongAsWasSaid) {
  const int port = listen_on("127.0.0.1", 0).port;
  ReachTimes times;
  times.join = 200ms;
  const auto start = Clock::now();
  const Problem problem = test::problem_of<EnvironmentFault>([&] {
    (void)reach({"127.0.0.1", port}, times, {}, -1);
  });
  EXPECT_GE(Clock::now() - start, 200ms);
  EXPECT_EQ(problem.code, "LS-3003");
  EXPECT_NE(problem.what.find("nobody listens there: Connection refused"), std::string::npos)
      << problem.what;
}

TEST(Reach, EndsWhenItIsAskedToStop) {
  const int port = listen_on("127.0.0.1", 0).port;
  const Fd stop(::eventfd(1, EFD_CLOEXEC));
  const auto start = Clock::now();
  EXPECT_FALSE(reach({"127.0.0.1", port}, {}, {}, stop.get()));
  EXPECT_LT(Clock::now() - start, 5s);
}

}  // namespace
}  // namespace lockstep::rendezvous
