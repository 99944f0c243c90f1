#include "tests/support/packet_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/support/eventually.h"

namespace lockstep::test {

/// Settings for the process, and word from it.
struct PacketRelay::Shared {
  std::atomic<std::int64_t> delay_ms{0};
  std::atomic<double> loss{0};
  std::array<std::atomic<bool>, 2> blocked{};
  std::atomic<bool> ready{false};
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFrameBytes = 70'000;
constexpr int kBufferBytes = 4 << 20;
constexpr std::chrono::milliseconds kLook{100};  // at the settings, when nothing comes

struct Waiting {
  Clock::time_point due;
  std::vector<char> frame;
};

void require(bool done, const char* what) {
  if (!done)
    throw std::runtime_error(std::string("packet relay: ") + what + ": " + strerror(errno));
}

void enter(pid_t holder, const char* kind) {
  const std::string path = "/proc/" + std::to_string(holder) + "/ns/" + kind;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0 && ::setns(fd, 0) == 0, path.c_str());
  ::close(fd);
}

/// Frames come with the header that says what the sender's kernel left to the device, such as
/// checksums, and go out with it.
int open_device(const std::string& name) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  require(fd >= 0, "packet socket");
  const int on = 1;
  require(::setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0, "PACKET_VNET_HDR");
  require(::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) == 0,
          "PACKET_IGNORE_OUTGOING");
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) {
    (void)::setsockopt(fd, SOL_SOCKET, buffer, &kBufferBytes, sizeof kBufferBytes);
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
  require(address.sll_ifindex > 0, name.c_str());
  require(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  return fd;
}

/// One direction.
class Way {
 public:
  Way(int from, int to) : from_(from), to_(to) {}

  void take(bool blocked, double loss, std::chrono::milliseconds delay) {
    ssize_t bytes = 0;
    while ((bytes = ::recv(from_, buffer_.data(), buffer_.size(), 0)) > 0) {
      if (blocked || chance_(random_) < loss) continue;
      waiting_.push_back({Clock::now() + delay, {buffer_.data(), buffer_.data() + bytes}});
    }
  }

  /// Sends what is due; \returns when the next is.
  Clock::time_point send() {
    while (!waiting_.empty() && waiting_.front().due <= Clock::now()) {
      const auto& frame = waiting_.front().frame;
      (void)!::send(to_, frame.data(), frame.size(), 0);  // a full queue loses it: so do cables
      waiting_.pop_front();
    }
    return waiting_.empty() ? Clock::time_point::max() : waiting_.front().due;
  }

 private:
  int from_;
  int to_;
  std::deque<Waiting> waiting_;
  std::vector<char> buffer_ = std::vector<char>(kFrameBytes);
  std::mt19937 random_{std::random_device{}()};
  std::uniform_real_distribution<> chance_{0, 1};
};

}  // namespace

/// Of the process, which never returns.
void PacketRelay::run(const std::array<int, 2>& ends) const {
  std::array<Way, 2> ways{Way(ends[0], ends[1]), Way(ends[1], ends[0])};
  shared_->ready.store(true);
  for (;;) {
    const std::chrono::milliseconds delay(shared_->delay_ms.load());
    auto next = Clock::now() + kLook;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      ways[i].take(shared_->blocked[i].load(), shared_->loss.load(), delay);
      next = std::min(next, ways[i].send());
    }
    std::array<pollfd, 2> awaited{pollfd{ends[0], POLLIN, 0}, pollfd{ends[1], POLLIN, 0}};
    const std::chrono::nanoseconds left = next - Clock::now();
    const timespec limit{0, std::max<long>(0, left.count())};
    (void)::ppoll(awaited.data(), awaited.size(), &limit, nullptr);
  }
}

PacketRelay::PacketRelay(pid_t holder, bool join_user, const std::array<std::string, 2>& devices) {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "memory");
  shared_ = new (memory) Shared;
  const pid_t parent = ::getpid();
  process_ = ::fork();
  require(process_ >= 0, "fork");
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    try {
      if (join_user) enter(holder, "user");
      enter(holder, "net");
      run({open_device(devices[0]), open_device(devices[1])});
    } catch (const std::exception& error) {
      (void)!::write(STDERR_FILENO, error.what(), std::strlen(error.what()));
    }
    ::_exit(1);
  }
  int status = 0;
  const bool stands = eventually(
      [&] { return shared_->ready.load() || ::waitpid(process_, &status, WNOHANG) == process_; });
  if (!stands || !shared_->ready.load()) throw std::runtime_error("the packet relay did not start");
}

PacketRelay::~PacketRelay() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  ::munmap(shared_, sizeof(Shared));
}

void PacketRelay::set(const Weather& weather) {
  shared_->delay_ms.store(weather.delay.count());
  shared_->loss.store(weather.loss);
}

void PacketRelay::block(int device) {
  shared_->blocked.at(static_cast<std::size_t>(device)).store(true);
}

}  // namespace lockstep::test
