#include "lockstep/comm/bench/regime.h"

#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/bench/sample.h"

namespace lockstep::bench {
namespace {

constexpr std::size_t kProbeBytes = 256 * 1024;
constexpr int kPasses = 25;
constexpr int kWarmPasses = 5;  // pages and caches of the first ones are cold

bool try_pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

/// One buffer handed back and forth between two threads.
class Relay {
 public:
  void write_passes() {
    const std::vector<char> source(kProbeBytes, 1);
    for (int pass = 0; pass < kPasses; ++pass) {
      wait_for(2 * pass);
      std::memcpy(buffer_.data(), source.data(), buffer_.size());
      turn_.store(2 * pass + 1, std::memory_order_release);
    }
  }

  std::vector<double> read_passes() {
    std::vector<double> times_us;
    std::vector<char> copy(kProbeBytes, 1);
    Stopwatch watch;
    for (int pass = 0; pass < kPasses; ++pass) {
      wait_for(2 * pass + 1);
      std::memcpy(copy.data(), buffer_.data(), copy.size());
      // The copy must be seen to be used, or there is none.
      sum_ += copy[static_cast<std::size_t>(pass)];
      if (pass >= kWarmPasses) times_us.push_back(watch.elapsed_s() * 1e6);
      watch = Stopwatch();
      turn_.store(2 * pass + 2, std::memory_order_release);
    }
    return times_us;
  }

 private:
  void wait_for(int turn) const {
    while (turn_.load(std::memory_order_acquire) != turn) ::sched_yield();
  }

  std::vector<char> buffer_ = std::vector<char>(kProbeBytes, 1);
  std::atomic<int> turn_{0};  // even: the writer's, odd: the reader's
  std::atomic<int> sum_{0};
};

}  // namespace

std::string_view regime_of(double probe_us) {
  if (std::isnan(probe_us)) return "unknown";
  return probe_us > kFarAbove_us ? "far" : "near";
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

void pin_to(int core) {
  if (try_pin(core)) return;
  throw EnvironmentFault({"LS-7056", "core " + std::to_string(core),
                          std::generic_category().message(errno),
                          "run with --no-pin, and expect times that spread more"});
}

double probe_us(const std::vector<int>& cores) {
  if (cores.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  Relay relay;
  std::vector<double> times_us;
  std::thread writer([&] {
    (void)try_pin(cores[0]);
    relay.write_passes();
  });
  std::thread reader([&] {
    (void)try_pin(cores[1]);
    times_us = relay.read_passes();
  });
  writer.join();
  reader.join();
  return median_of(std::move(times_us));
}

}  // namespace lockstep::bench
