// How long a rank waits for news of the death of another: from kill -9 of a process with much
// resident memory to the end of the others' wait. `make bench-death`; one JSON line.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/engine.h"
#include "lockstep/comm/shm/liveness.h"
#include "lockstep/comm/shm/shared_memory.h"
#include "lockstep/comm/shm/standard_layout.h"

namespace {

namespace shm = lockstep::comm::shm;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kDeadline{60};

shm::Request barrier() {
  shm::Request request;
  request.kind.collective = shm::Collective::barrier;
  return request;
}

/// Rank 1: takes the memory, meets rank 0 once, and waits to be killed.
[[noreturn]] void run_victim(const shm::Segment& segment, std::size_t resident_bytes) {
  const std::vector<char> memory(resident_bytes, 1);
  const shm::Liveness liveness(segment);
  shm::Engine engine(segment, {});
  engine.wait(*engine.issue(barrier()), kDeadline);
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

double notice_ms(std::size_t resident_bytes) {
  const shm::Layout layout = shm::standard_layout(2);
  const shm::SharedMemory memory = shm::SharedMemory::create(layout.total_bytes());
  const std::span<std::byte> bytes(memory.data(), memory.bytes());
  shm::Segment::format(bytes, layout);
  const pid_t victim = ::fork();
  if (victim == 0) run_victim(shm::Segment(bytes, 1, 2), resident_bytes);
  const shm::Segment segment(bytes, 0, 2);
  Clock::time_point noticed;
  Clock::time_point killed;
  {
    const shm::Liveness liveness(segment);
    shm::Engine engine(segment, {});
    engine.wait(*engine.issue(barrier()), kDeadline);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 waits by then
      killed = Clock::now();
      ::kill(victim, SIGKILL);
    });
    try {
      engine.wait(*engine.issue(barrier()), kDeadline);
    } catch (const lockstep::PeerLost&) {
      noticed = Clock::now();
    }
    killer.join();
  }
  ::waitpid(victim, nullptr, 0);
  return std::chrono::duration<double, std::milli>(noticed - killed).count();
}

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc > 1 ? std::atof(argv[1]) : 4;
  std::vector<double> samples;
  for (int round = 0; round < 5; ++round) {
    samples.push_back(notice_ms(static_cast<std::size_t>(gib * (1 << 30))));
  }
  std::sort(samples.begin(), samples.end());
  std::printf(
      "{\"resident_gib\": %.1f, \"notice_ms\": {\"min\": %.3f, \"median\": %.3f, \"max\": %.3f}}\n",
      gib, samples.front(), samples[2], samples.back());
  return 0;
}
