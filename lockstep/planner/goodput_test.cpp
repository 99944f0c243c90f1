#include "lockstep/planner/goodput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep::planner {
namespace {

constexpr double kDay = 86400;

/// A training of ideal_s, second by second of failures drawn at random. \return how long it took.
double simulated_s(const GoodputQuestion& question, double interval_s, double ideal_s) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> next_failure(question.failures_per_s());
  double now = 0;
  double failure = next_failure(random);
  for (double done = 0; done < ideal_s;) {
    const double segment = interval_s + question.checkpoint_s;
    if (now + segment <= failure) {
      now += segment;
      done += interval_s;
      continue;
    }
    do {  // restarts fail too
      now = failure;
      failure = now + next_failure(random);
    } while (failure < now + question.restart_s);
    now += question.restart_s;
  }
  return now;
}

GoodputQuestion thousand_devices() { return {3 * 365 * kDay, 1024, 60, 600, 0}; }

TEST(Goodput, IsTheClosedFormAtTheBestInterval) {
  const GoodputQuestion question = thousand_devices();
  const double rate = 1024 / (3 * 365 * kDay);
  const Goodput answer = goodput(question);
  EXPECT_DOUBLE_EQ(answer.best_interval_s, std::sqrt(2 * 60 / rate));
  EXPECT_DOUBLE_EQ(answer.interval_s, answer.best_interval_s);
  EXPECT_NEAR(answer.share, 1 - (std::sqrt(2 * 60 * rate) + rate * 600), 1e-12);
  EXPECT_NEAR(answer.failures_a_day, 1024.0 / (3 * 365), 1e-12);
}

TEST(Goodput, HasNoBetterIntervalThanTheBest) {
  GoodputQuestion question = thousand_devices();
  const Goodput best = goodput(question);
  for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
    question.interval_s = best.best_interval_s * factor;
    const Goodput other = goodput(question);
    EXPECT_LT(other.share, best.share) << factor;
    EXPECT_EQ(other.best_interval_s, best.best_interval_s) << factor;
  }
}

TEST(Goodput, IsWhatASimulationTakes) {
  GoodputQuestion question = thousand_devices();
  for (const double interval_s : {0.0, 1800.0, 6 * 3600.0}) {
    question.interval_s = interval_s;
    const Goodput answer = goodput(question);
    const double ideal_s = 20'000 * kDay;  // long, so that chance evens out
    const double measured = ideal_s / simulated_s(question, answer.interval_s, ideal_s);
    EXPECT_NEAR(answer.exact_share / measured, 1, 0.02) << interval_s;
    EXPECT_NEAR(expected_s(answer, ideal_s) * measured, ideal_s, 0.02 * ideal_s) << interval_s;
    if (measured > 0.85) {
      EXPECT_NEAR(answer.share / measured, 1, 0.02) << interval_s;
    }
  }
}

TEST(Goodput, HoldsWhereFailuresAreAsFrequentAsCheckpoints) {
  const GoodputQuestion question{3600.0 * 100, 100, 120, 900, 3600};  // one failure an hour
  const Goodput answer = goodput(question);
  EXPECT_EQ(goodput({3600.0 * 100, 100, 120, 3600, 3600}).share, 0) << "the short form gives up";
  const double ideal_s = 1000 * kDay;
  EXPECT_NEAR(answer.exact_share * simulated_s(question, 3600, ideal_s) / ideal_s, 1, 0.02);
}

TEST(Goodput, IsWholeWithoutFailuresWorthSpeakingOf) {
  const Goodput answer = goodput({1e15, 1, 0, 60, 0});
  EXPECT_NEAR(answer.share, 1, 1e-9);
  EXPECT_NEAR(answer.exact_share, 1, 1e-9);
  EXPECT_NEAR(expected_s(answer, kDay), kDay, 1e-3);
}

TEST(Goodput, NeverEndsWhereADeviceNeverLastsTillACheckpoint) {
  EXPECT_TRUE(std::isinf(expected_s(goodput({1, 1'000'000, 60, 600, 3600}), kDay)));
}

// Llama 3 405B (Dubey et al. 2024, arXiv:2407.21783, section 3.3.4): 419 unexpected interruptions
// in 54 days on 16,384 GPUs, more than 90 % effective training time. What a checkpoint and a
// restart took is not printed: 10 s and 5 minutes are assumed.
TEST(Goodput, AgreesWithTheTrainingOfLlama3) {
  const double gpu_mtbf_s = 54 * kDay * 16384 / 419;
  const Goodput answer = goodput({gpu_mtbf_s, 16384, 10, 300, 0});
  EXPECT_NEAR(answer.failures_a_day * 54, 419, 1e-6);
  EXPECT_GT(answer.share, 0.90);
  EXPECT_LT(answer.share, 0.95);
  EXPECT_LT(goodput({gpu_mtbf_s, 16384, 10, 300, 3600}).share, 0.90)
      << "with a checkpoint an hour it could not have been";
}

}  // namespace
}  // namespace lockstep::planner
