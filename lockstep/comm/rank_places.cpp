#include "lockstep/comm/rank_places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/local_address.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {
namespace {

constexpr auto kKey = "place";

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// The running kernel and the network namespace in it.
std::string network_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  const bool seen = ::stat("/proc/self/ns/net", &network) == 0;
  return boot + "/" + (seen ? std::to_string(network.st_ino) : "?");
}

RankPlace own_place(const GroupOptions& options) {
  RankPlace place;
  place.host_id = options.host_id.empty() ? host_identity() : options.host_id;
  place.host_name = options.host_id.empty() ? host_name() : options.host_id;
  place.network = network_identity();
  place.is_address_given = !options.address.empty();
  place.address = place.is_address_given ? options.address : address_towards(options.store_host);
  return place;
}

bool is_unreachable_elsewhere(const RankPlace& place) {
  return !place.is_address_given &&
         (is_this_machine(place.address) || is_link_local(place.address));
}

}  // namespace

std::string to_text(const RankPlace& place) {
  return place.host_id + "\n" + place.host_name + "\n" + place.network + "\n" + place.address +
         "\n" + (place.is_address_given ? "given" : "found") + "\n";
}

RankPlace read_place(const std::string& text) {
  RankPlace place;
  std::istringstream lines(text);
  std::string given;
  std::getline(lines, place.host_id);
  std::getline(lines, place.host_name);
  std::getline(lines, place.network);
  std::getline(lines, place.address);
  std::getline(lines, given);
  place.is_address_given = given == "given";
  return place;
}

std::vector<RankPlace> exchange_places(c10d::Store& store, const GroupOptions& options) {
  std::vector<RankPlace> places;
  const std::string own = to_text(own_place(options));
  for (const auto& text : exchange_texts(store, options, kKey, own, "on which host it is")) {
    places.push_back(read_place(text));
  }
  return places;
}

void forget_places(c10d::Store& store, const GroupOptions& options) {
  forget_texts(store, options, kKey);
}

HostLayout layout_of(const std::vector<RankPlace>& places, int rank) {
  std::vector<std::string> hosts;
  for (const RankPlace& place : places) hosts.push_back(place.host_id);
  return {hosts, rank};
}

void check_addresses(const std::vector<RankPlace>& places) {
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (!is_unreachable_elsewhere(places[r])) continue;
    for (std::size_t other = 0; other < places.size(); ++other) {
      if (places[other].network == places[r].network) continue;
      const auto name = [&](std::size_t rank) {
        return "rank " + std::to_string(rank) + " on host " + places[rank].host_name;
      };
      throw EnvironmentFault(
          {"LS-4006", name(r),
           "its way to the others is " + places[r].address + ", which " + name(other) + " (" +
               places[other].address + ") cannot reach",
           "set MASTER_ADDR to an address of the first rank's host that the other hosts reach, or "
           "LOCKSTEP_ADDRESS on " +
               places[r].host_name + " to its own address in their network"});
    }
  }
}

}  // namespace lockstep::comm
