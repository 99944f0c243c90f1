// A cable that can be bad: passes the packets of one network device on to another, later or not at
// all.
#pragma once
#include <sys/types.h>

#include <array>
#include <chrono>
#include <string>

namespace lockstep::test {

/// What happens to packets, the same in both directions.
struct Weather {
  std::chrono::milliseconds delay{0};  // of each way: half the round trip
  double loss = 0;                     // share of the packets that never arrive
};

/// A process of its own in the network namespace of another one.
class PacketRelay {
 public:
  /// \param holder a process whose namespaces the devices are in. \param join_user whether these
  /// belong to a user namespace. \throws std::runtime_error.
  PacketRelay(pid_t holder, bool join_user, const std::array<std::string, 2>& devices);
  PacketRelay(const PacketRelay&) = delete;
  PacketRelay& operator=(const PacketRelay&) = delete;
  ~PacketRelay();

  void set(const Weather& weather);
  /// From now on nothing passes that comes in at the device 0 or 1.
  void block(int device);

 private:
  struct Shared;

  [[noreturn]] void run(const std::array<int, 2>& ends) const;

  Shared* shared_;  // with the process
  pid_t process_ = -1;
};

}  // namespace lockstep::test
