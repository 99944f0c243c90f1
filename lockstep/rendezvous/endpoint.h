// The address where the agents of a job meet: whose it is, and why it cannot be reached.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "lockstep/base/socket_address.h"

namespace lockstep::rendezvous {

struct Endpoint {
  std::string host;
  int port = 0;

  [[nodiscard]] std::string text() const { return address_text(host, port); }
};

/// What the kernel says to a bind to the endpoint. No names are compared: one name can mean
/// several hosts, and one host have several names.
struct BindTest {
  enum class Result : std::uint8_t {
    bound,      // this host's, and free: who binds it leads
    in_use,     // this host's
    elsewhere,  // another host's
  };
  Result result = Result::elsewhere;
  Listener listener{};         // of bound
  bool only_loopback = false;  // of bound: no other host reaches it
};

/// \param addresses of the endpoint. \throws EnvironmentFault for an address that stands for every
/// address of a host, and where binding is not allowed.
[[nodiscard]] BindTest test_bind(const Endpoint& endpoint,
                                 const std::vector<SocketAddress>& addresses);

/// Why an endpoint is not reached.
enum class Unreached : std::uint8_t {
  name,       // it cannot be resolved
  refused,    // the host answers, nobody listens
  no_answer,  // nothing at all
  no_route,   // this host knows no way there, or a router says that there is none
  no_proof,   // what listens is not, or does not show that it is, what is looked for
  other,
};

/// What to end with when it lasts. \param text what was met, as Attempt::text().
[[nodiscard]] EnvironmentFault unreached_fault(const Endpoint& endpoint, Unreached unreached,
                                               const std::string& text, double waited_s);

/// Connects to all addresses of an endpoint at once; the first that answers is taken.
class Attempt {
 public:
  explicit Attempt(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses);

  /// To poll for output.
  [[nodiscard]] const std::vector<Fd>& sockets() const { return sockets_; }
  /// Looks without waiting. True when it has ended: connected, or unreached.
  [[nodiscard]] bool look();
  /// Ends it: what has not answered yet does not.
  void give_up();

  [[nodiscard]] Fd take_connected() { return std::move(connected_); }
  [[nodiscard]] bool is_connected() const { return static_cast<bool>(connected_); }
  [[nodiscard]] Unreached unreached() const { return unreached_; }
  /// "no answer from 10.0.0.1:29400 (SYN sent 4 times, no reply): firewall or wrong address"
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void failed(int code, const std::string& because);

  std::string where_;
  std::vector<Fd> sockets_;
  Fd connected_;
  Unreached unreached_ = Unreached::other;
  std::string text_;
};

}  // namespace lockstep::rendezvous
