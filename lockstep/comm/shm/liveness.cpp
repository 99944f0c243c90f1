#include "lockstep/comm/shm/liveness.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/comm/records/process_state.h"
#include "lockstep/comm/shm/futex.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::comm::shm {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// While it lives, the kernel marks `word` when the calling thread ends, however it ends.
class RobustWord {
 public:
  explicit RobustWord(std::atomic<std::uint32_t>& word) : word_(word) {
    node_.next = &head_.list;
    head_.list.next = &node_;
    head_.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&node_);
    head_.list_op_pending = nullptr;
    // The kernel wakes a watcher only where the waiters' bit is set: it always is.
    word_.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)) | FUTEX_WAITERS);
    ::syscall(SYS_set_robust_list, &head_, sizeof head_);
  }
  RobustWord(const RobustWord&) = delete;
  RobustWord& operator=(const RobustWord&) = delete;
  ~RobustWord() {
    word_.store(0);
    ::syscall(SYS_set_robust_list, nullptr, sizeof head_);  // it lies on a stack that goes
  }

 private:
  std::atomic<std::uint32_t>& word_;
  robust_list_head head_{};
  robust_list node_{};
};

}  // namespace

Liveness::Liveness(const Segment& segment, Limits limits)
    : segment_(segment), limits_(limits), last_beat_(Clock::now()), trust_from_(Clock::now()) {
  segment_.own().process.store(::getpid());
  segment_.own().heartbeat_ns.store(now_ns());
  thread_ = std::thread([this] { run(); });
}

Liveness::~Liveness() {
  segment_.own().closed.store(1);
  stop_.store(true);
  // Whatever word the thread watches, this wakes it; other ranks' threads look once more and sleep.
  while (segment_.own().life.load() != 0) {
    for (int r = 0; r < segment_.ranks(); ++r) futex_wake(segment_.block(r).life);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  thread_.join();
}

void Liveness::run() {
  const RobustWord word(segment_.own().life);
  while (!stop_.load() && !segment_.aborted()) {
    beat();
    look_for_silence();
    watch(next_living());
  }
  while (!stop_.load()) {  // the group is over; its end is still to be told apart from a death
    beat();
    futex_wait(segment_.own().life, segment_.own().life.load(), limits_.heartbeat);
  }
}

void Liveness::beat() {
  const auto now = Clock::now();
  // After a gap this rank was stopped itself, perhaps with all others: give them time to go on.
  if (now - last_beat_ > limits_.silence / 2) trust_from_ = now + limits_.silence;
  last_beat_ = now;
  segment_.own().heartbeat_ns.store(now_ns());
}

int Liveness::next_living() const {
  for (int step = 1; step < segment_.ranks(); ++step) {
    const int other = (segment_.rank() + step) % segment_.ranks();
    if (segment_.block(other).closed.load() == 0) return other;
  }
  return segment_.rank();
}

void Liveness::watch(int other) {
  RankBlock& block = segment_.block(other);
  const std::uint32_t life = block.life.load();
  if ((life & FUTEX_OWNER_DIED) != 0 && other != segment_.rank()) {
    segment_.abort(text_of(other) + " ended");
    return;
  }
  // Not there yet: look again soon. It wakes nobody when it comes.
  const auto limit = life == 0 ? std::chrono::milliseconds(5) : limits_.heartbeat;
  if (stop_.load() || block.closed.load() != 0) return;
  futex_wait(block.life, life, limit);
}

void Liveness::look_for_silence() {
  if (Clock::now() < trust_from_) return;
  for (int other = 0; other < segment_.ranks(); ++other) {
    const RankBlock& block = segment_.block(other);
    const std::int64_t heard_ns = block.heartbeat_ns.load();
    if (other == segment_.rank() || heard_ns == 0 || block.closed.load() != 0) continue;
    const std::chrono::nanoseconds silent(now_ns() - heard_ns);
    if (silent < limits_.silence) continue;
    const std::string stat =
        read_small_file("/proc/" + std::to_string(block.process.load()) + "/stat");
    const ProcessLook look = look_at_stat(stat, 0);
    if (look.letter == 'T') {  // a debugger's 't' is somebody's wish
      segment_.abort(text_of(other) +
                     " is stopped (state T): kill -CONT lets it go on, but not this job");
    } else if (look.state == ProcessState::gone && block.closed.load() == 0) {
      segment_.abort(text_of(other) + " ended");
    }
  }
}

std::string Liveness::text_of(int rank) const {
  return "rank " + std::to_string(rank) + " (process " +
         std::to_string(segment_.block(rank).process.load()) + ")";
}

}  // namespace lockstep::comm::shm
