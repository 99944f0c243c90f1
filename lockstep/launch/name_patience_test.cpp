#include "lockstep/launch/name_patience.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"

namespace lockstep::launch {
namespace {

using std::chrono_literals::operator""ms;

EnvironmentFault unknown() { return EnvironmentFault({"LS-3002", "job-0.job", "no name", "fix"}); }

TEST(NamePatience, ANameThatComesLaterIsFoundAndTheWaitTold) {
  int looks = 0;
  std::vector<std::string> told;
  const auto look = [&]() -> std::string {
    if (++looks < 4) throw unknown();
    return "10.0.0.7";
  };
  const NamePatience patience{60'000ms, 0ms, 0ms};
  EXPECT_EQ(when_known(look, patience, [&](const std::string& text) { told.push_back(text); }),
            "10.0.0.7");
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(told, std::vector<std::string>(3, "job-0.job: no name"));
}

TEST(NamePatience, EndsWithTheLastFault) {
  int looks = 0;
  const auto look = [&]() -> std::string {
    ++looks;
    throw unknown();
  };
  const auto problem = test::problem_of<EnvironmentFault>([&] {
    (void)when_known(look, {20ms, 1ms, 60'000ms}, {});
  });
  EXPECT_EQ(problem.code, "LS-3002");
  EXPECT_GT(looks, 1);
}

TEST(NamePatience, AMistakeOfTheCallerIsToldAtOnce) {
  const auto look = []() -> std::string { throw UsageError({{"LS-1013", "a", "b", "c"}}); };
  EXPECT_THROW((void)when_known(look, {60'000ms, 0ms, 0ms}, {}), UsageError);
}

}  // namespace
}  // namespace lockstep::launch
