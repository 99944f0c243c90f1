// What it costs that the ranks of a Gloo group compare every collective they enter: two processes
// all-reduce over two groups in turn, of which one only moves the data. `make bench-compare`; a
// JSON line a size, in microseconds on rank 0. cost_percent is the median of what the two calls of
// a pair differ by; quiet_cost_percent compares the fastest tenths, for a machine that does other
// things as well.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/bench/regime.h"
#include "lockstep/comm/bench/sample.h"
#include "lockstep/comm/gloo_part.h"
#include "lockstep/comm/join.h"
#include "lockstep/store/server.h"

namespace {

namespace comm = lockstep::comm;
namespace bench = lockstep::bench;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLeastBytes = 4 << 10;
constexpr std::int64_t kMostBytes = 16 << 20;
constexpr std::chrono::seconds kEachSize{3};
constexpr int kWarmup = 20;
constexpr int kFewest = 100;

std::unique_ptr<comm::GlooPart> connect(int rank, int port, const std::string& name,
                                        comm::Compared compared) {
  comm::GroupOptions options;
  options.rank = rank;
  options.size = 2;
  options.store_port = port;
  options.name = name;
  options.address = "127.0.0.1";
  return comm::make_gloo_part(options, comm::meet(options), compared);
}

double time_us(comm::Group& group, const at::Tensor& tensor) {
  const auto start = Clock::now();
  group.all_reduce(tensor, comm::ReduceOp::sum)->wait();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Rank 0 says whether there is one more pair.
bool goes_on(comm::Group& group, bool mine) {
  auto word = at::full({1}, mine ? 1 : 0, at::kInt);
  group.broadcast(word, 0)->wait();
  return word.item<int>() != 0;
}

/// Other work of the machine makes times longer, never shorter.
double tenth_of(std::vector<double> times_us) {
  const auto at = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 10);
  std::nth_element(times_us.begin(), at, times_us.end());
  return *at;
}

void measure(comm::Group& comparing, comm::Group& plain, std::int64_t bytes) {
  const auto tensor = at::zeros({bytes / 4});
  for (int i = 0; i < kWarmup; ++i) {
    (void)time_us(comparing, tensor);
    (void)time_us(plain, tensor);
  }
  std::vector<double> comparing_us;
  std::vector<double> plain_us;
  std::vector<double> extra_us;
  const auto end = Clock::now() + kEachSize;
  do {
    for (int i = 0; i < kFewest; ++i) {
      const bool is_first = i % 2 == 0;  // neither is always the one after the other
      if (is_first) comparing_us.push_back(time_us(comparing, tensor));
      plain_us.push_back(time_us(plain, tensor));
      if (!is_first) comparing_us.push_back(time_us(comparing, tensor));
      extra_us.push_back(comparing_us.back() - plain_us.back());
    }
  } while (goes_on(plain, Clock::now() < end));
  if (plain.rank() != 0) return;
  const double base = bench::median_of(plain_us);
  const double quiet = tenth_of(plain_us);
  std::printf(
      "{\"op\": \"all_reduce\", \"backend\": \"gloo\", \"ranks\": 2, \"bytes\": %lld, \"samples\": "
      "%zu, "
      "\"plain_us\": %.1f, \"comparing_us\": %.1f, \"cost_percent\": %.2f, "
      "\"quiet_cost_percent\": %.2f}\n",
      static_cast<long long>(bytes), plain_us.size(), base, bench::median_of(comparing_us),
      100 * bench::median_of(extra_us) / base, 100 * (tenth_of(comparing_us) - quiet) / quiet);
  std::fflush(stdout);
}

void run(int rank, int port) {
  at::set_num_threads(1);
  const std::vector<int> cores = bench::allowed_cores();
  if (cores.size() > 1) bench::pin_to(cores[static_cast<std::size_t>(rank)]);
  const auto comparing = connect(rank, port, "comparing", comm::Compared::each);
  const auto plain = connect(rank, port, "plain", comm::Compared::declared);
  for (std::int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) {
    measure(*comparing, *plain, bytes);
  }
}

}  // namespace

int main() {
  int port_pipe[2];
  if (::pipe(port_pipe) != 0) return 3;
  const pid_t other = ::fork();
  if (other < 0) return 3;
  int port = 0;
  try {
    if (other == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::read(port_pipe[0], &port, sizeof port) == sizeof port) run(1, port);
      return 0;
    }
    const lockstep::store::Server server("127.0.0.1", 0);
    port = server.port();
    if (::write(port_pipe[1], &port, sizeof port) != sizeof port) return 3;
    run(0, port);
    ::waitpid(other, nullptr, 0);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
