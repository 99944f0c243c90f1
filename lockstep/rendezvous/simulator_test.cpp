// The rules of membership against everything that a network and its hosts do, from seeds.
// make soak runs 10,000 seeds and 20 large ones; LOCKSTEP_TEST_SEED, LOCKSTEP_TEST_JOBS and
// LOCKSTEP_TEST_LARGE_JOBS run any others.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/rendezvous/simulated_job_testing.h"

namespace lockstep::rendezvous::testing {
namespace {

constexpr unsigned kJobs = 500;
constexpr unsigned kLargeJobs = 1;
constexpr std::size_t kLogLines = 400;

unsigned number_from(const char* variable, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

struct Totals {
  unsigned succeeded = 0;
  unsigned rounds = 0;
  double seconds = 0;
  std::uint64_t events = 0;
  std::map<std::string, int> faults;
  std::map<std::string, int> seen;
  unsigned failed_seed = 0;
  SimulationResult failure;
};

void add(Totals& totals, unsigned seed, SimulationResult&& result) {
  totals.succeeded += result.has_succeeded ? 1 : 0;
  totals.rounds += static_cast<unsigned>(result.rounds);
  totals.seconds += result.seconds;
  totals.events += result.events;
  for (const auto& [kind, count] : result.faults) totals.faults[kind] += count;
  for (const auto& [kind, count] : result.seen) totals.seen[kind] += count;
  if (result.violation.empty() || !totals.failure.violation.empty()) return;
  totals.failed_seed = seed;
  totals.failure = std::move(result);
}

/// One thread runs a simulation; several simulations run beside each other.
Totals run(unsigned first, unsigned count, const SimulationOptions& options) {
  Totals totals;
  std::mutex mutex;
  std::atomic<unsigned> next{first};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (unsigned seed = next++; seed < first + count && !is_over; seed = next++) {
        SimulationResult result = simulate(seed, options);
        const std::lock_guard lock(mutex);
        if (!result.violation.empty()) is_over = true;
        add(totals, seed, std::move(result));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return totals;
}

std::string tail(const std::vector<std::string>& log) {
  std::string text;
  const std::size_t from = log.size() > kLogLines ? log.size() - kLogLines : 0;
  for (std::size_t i = from; i < log.size(); ++i) text += log[i] + "\n";
  return text;
}

void print(const Totals& totals, unsigned count) {
  std::cout << count << " jobs, " << totals.succeeded << " succeeded, " << totals.rounds
            << " rounds, " << static_cast<std::uint64_t>(totals.seconds) << " s of virtual time, "
            << totals.events << " events; faults:";
  for (const auto& [kind, number] : totals.faults) std::cout << " " << kind << " " << number;
  std::cout << "\nseen:";
  for (const auto& [kind, number] : totals.seen) std::cout << " " << kind << " " << number;
  std::cout << "\n";
}

TEST(Simulator, SmallJobsKeepTheRulesWhateverBefallsThem) {
  const unsigned first = number_from("LOCKSTEP_TEST_SEED", 1);
  const unsigned count = number_from("LOCKSTEP_TEST_JOBS", kJobs);
  const Totals totals = run(first, count, {});
  print(totals, count);
  EXPECT_EQ(totals.failure.violation, "")
      << "LOCKSTEP_TEST_SEED=" << totals.failed_seed << " LOCKSTEP_TEST_JOBS=1 runs it alone\n"
      << tail(totals.failure.log);
}

TEST(Simulator, JobsOfAThousandHostsKeepTheRules) {
  const unsigned first = number_from("LOCKSTEP_TEST_SEED", 1);
  const unsigned count = number_from("LOCKSTEP_TEST_LARGE_JOBS", kLargeJobs);
  SimulationOptions options;
  options.least_hosts = options.most_hosts = 1000;
  const Totals totals = run(first, count, options);
  print(totals, count);
  EXPECT_EQ(totals.failure.violation, "") << "LOCKSTEP_TEST_SEED=" << totals.failed_seed << "\n"
                                          << tail(totals.failure.log);
}

TEST(Simulator, FindsALeaderThatGivesHostsUpBeforeTheyKillTheirRanks) {
  SimulationOptions options;
  options.times.lost_s = 1;
  options.checks_words = false;
  const Totals totals = run(1, 500, options);
  EXPECT_NE(totals.failure.violation.find("two live groups"), std::string::npos)
      << totals.failure.violation;
  EXPECT_FALSE(totals.failure.log.empty());
}

TEST(Simulator, FindsALeaderThatDoesNotKnowThatAnotherLedBefore) {
  SimulationOptions options;
  options.keeps_marks = false;
  const Totals totals = run(1, 2000, options);
  EXPECT_NE(totals.failure.violation.find("of another start of the job"), std::string::npos)
      << totals.failure.violation;
}

TEST(Simulator, GivesTheSameHistoryForTheSameSeed) {
  SimulationOptions options;
  options.keeps_log = true;
  for (const unsigned seed : {3U, 16U, 77U}) {
    EXPECT_EQ(simulate(seed, options).log, simulate(seed, options).log);
  }
}

}  // namespace
}  // namespace lockstep::rendezvous::testing
