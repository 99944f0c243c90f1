#include "lockstep/comm/control/knocks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::comm::control {
namespace {

constexpr std::chrono::milliseconds kEvery{250};
constexpr std::chrono::seconds kLongest{2};  // of one attempt

bool is_answer(int error) { return error == 0 || error == ECONNREFUSED || error == ECONNRESET; }

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

Address address_of(const std::string& host, int port) {
  Address address;
  const auto number = htons(static_cast<std::uint16_t>(port));
  auto& four = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = number;
    address.bytes = sizeof four;
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = number;
    address.bytes = sizeof six;
  }
  return address;
}

/// How it ended; EINPROGRESS while it has not.
int result_of(int socket) {
  pollfd ready{socket, POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

}  // namespace

void Knocks::begin(Clock::time_point now) {
  last_ = now;
  const Address address = address_of(host_, port_);
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || address.bytes == 0) return;
  const linger no_trace{1, 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &no_trace, sizeof no_trace);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address.storage);
  const int error = ::connect(socket.get(), to, address.bytes) == 0 ? 0 : errno;
  if (is_answer(error)) answered_ = now;
  if (error == EINPROGRESS) under_way_.push_back({now, std::move(socket)});
}

void Knocks::tend(Clock::time_point now) {
  if (now - last_ >= kEvery) begin(now);
  const auto is_over = [&](const Attempt& attempt) {
    const int result = result_of(attempt.socket.get());
    if (is_answer(result)) answered_ = now;
    return result != EINPROGRESS || now - attempt.begun > kLongest;
  };
  under_way_.erase(std::remove_if(under_way_.begin(), under_way_.end(), is_over), under_way_.end());
}

}  // namespace lockstep::comm::control
