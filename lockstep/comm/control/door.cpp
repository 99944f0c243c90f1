#include "lockstep/comm/control/door.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/limits.h"
#include "lockstep/comm/control/frame.h"
#include "lockstep/comm/records/flight_words.h"
#include "lockstep/comm/records/process_state.h"

namespace lockstep::comm::control {
namespace {

using Clock = std::chrono::steady_clock;
// Of somebody who connected, to say who he is: ranks do at once, a port scanner never does.
constexpr std::chrono::seconds kHelloDeadline{2};

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) {
    token = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  }
  return token;
}

std::span<std::uint8_t> bytes_of(std::string& text) {
  return {reinterpret_cast<std::uint8_t*>(text.data()), text.size()};
}

PeerLost not_connected(const std::string& where, const std::string& what) {
  return PeerLost({"LS-4005", where, "all ranks joined, but " + what,
                   "see whether a rank ended meanwhile, and whether a firewall stands between the "
                   "hosts (control connections use free ports)"});
}

Fd knock(int rank, const Card& card, Deadline deadline) {
  Fd socket = connect_to(card.host, card.port, deadline);
  std::string bytes;
  append(bytes, {Word::hello, false, static_cast<std::uint32_t>(rank), card.token});
  // What is not sent is noticed as a connection that ends.
  (void)write_all(socket.get(), bytes_of(bytes), deadline);
  return socket;
}

std::int64_t number(const std::string& word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size()) return value;
  throw BadData({"LS-4030", "store", "'" + word + "' is no number in a rank's control address",
                 "start all ranks from one build of lockstep"});
}

}  // namespace

std::string to_text(const Card& card) {
  const ProcessIdentity& process = card.process;
  std::ostringstream text;
  text << card.host << ' ' << card.port << ' ' << static_cast<std::int64_t>(card.token) << ' '
       << process.pid << ' ' << process.start_ticks << ' ' << process.pid_namespace << ' '
       << (process.boot_id.empty() ? "?" : process.boot_id) << ' '
       << (process.host.empty() ? "?" : process.host);
  return text.str();
}

Card card_from_text(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  if (words.size() != 8) {
    throw BadData({"LS-4030", "store", "a rank's control address is not one: '" + text + "'",
                   "start all ranks from one build of lockstep"});
  }
  Card card;
  card.host = words[0];
  card.port = static_cast<int>(number(words[1]));
  card.token = static_cast<std::uint64_t>(number(words[2]));
  card.process = {number(words[3]), number(words[4]), number(words[5]), words[6], words[7]};
  return card;
}

std::string name_of(int rank, const Card& card) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(card.process.pid) + " on " +
         card.process.host + ")";
}

Door::Door(const std::string& host) : listener_(listen_on(host, 0)) {
  card_ = {host, listener_.port, random_token(), own_identity()};
}

std::vector<Fd> Door::meet(int rank, const std::vector<Card>& cards, const std::string& where,
                           Deadline deadline) {
  std::vector<Fd> peers(cards.size());
  for (int r = 0; r < rank; ++r) {
    const Card& card = cards[static_cast<std::size_t>(r)];
    try {
      peers[static_cast<std::size_t>(r)] = knock(rank, card, deadline);
    } catch (const EnvironmentFault& fault) {
      throw not_connected(where, "the control connection to " + name_of(r, card) + " at " +
                                     address_text(card.host, card.port) +
                                     " failed: " + fault.problems().front().what);
    }
  }
  const auto missing = [&] {
    std::vector<int> ranks;
    for (std::size_t r = static_cast<std::size_t>(rank) + 1; r < peers.size(); ++r) {
      if (!peers[r]) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  };
  while (!missing().empty()) {
    if (Clock::now() >= deadline) {
      throw not_connected(where, rank_list(missing()) + " did not make a control connection to " +
                                     address_text(card_.host, card_.port) + " in time");
    }
    let_in(rank, peers, deadline);
  }
  return peers;
}

/// Lets one in, if it is a rank that is still missing.
void Door::let_in(int rank, std::vector<Fd>& peers, Deadline deadline) {
  pollfd ready{listener_.fd.get(), POLLIN, 0};
  if (::poll(&ready, 1, poll_timeout_ms(deadline)) <= 0) return;
  Fd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE) {
      throw limit_fault("connecting to the other ranks failed", errno);
    }
    return;
  }
  enable_fast_and_watched(socket.get());
  std::string bytes(kHeadBytes, '\0');
  const auto hello_by = std::min<Deadline>(deadline, Clock::now() + kHelloDeadline);
  if (read_exact(socket.get(), bytes_of(bytes), hello_by) != IoEnd::done) return;
  FrameReader reader;
  reader.add(bytes);
  Frame hello;
  if (reader.take(hello) != FrameReader::Took::frame || hello.word != Word::hello) return;
  if (hello.sequence != card_.token || hello.rank >= peers.size()) return;
  if (static_cast<int>(hello.rank) <= rank || peers[hello.rank]) return;
  peers[hello.rank] = std::move(socket);
}

}  // namespace lockstep::comm::control
