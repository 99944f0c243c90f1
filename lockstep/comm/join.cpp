#include "lockstep/comm/join.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "lockstep/comm/store_adapter.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kNamedRanks = 16;  // a list of thousands helps nobody

std::string key_of(const GroupOptions& options, int rank) {
  return options.name + "/rank" + std::to_string(rank);
}

std::vector<std::string> keys_of_texts(const GroupOptions& options, const std::string& key) {
  std::vector<std::string> keys;
  for (int r = 0; r < options.size; ++r) {
    keys.push_back(options.name + "/" + key + "/" + std::to_string(r));
  }
  return keys;
}

std::string this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " on " + host;
}

void register_rank(c10d::Store& store, const GroupOptions& options) {
  const std::string own = this_process();
  const std::string holder = store.compareSet(key_of(options, options.rank), "", own);
  if (holder == own) return;
  throw EnvironmentFault({"LS-4003", where_of(options),
                          holder + " has this rank already; this is " + own,
                          "give every process its own RANK, and every job its own port"});
}

/// \param keys one a rank.
std::string list_missing(c10d::Store& store, const std::vector<std::string>& keys) {
  std::string text;
  std::size_t missing = 0;
  for (std::size_t r = 0; r < keys.size(); ++r) {
    if (store.check({keys[r]})) continue;
    if (++missing <= kNamedRanks) text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  if (missing > kNamedRanks) text += " and " + std::to_string(missing - kNamedRanks) + " more";
  return (missing == 1 ? "rank " : "ranks ") + text;
}

/// A person who started ranks by hand sees which one is still to come.
void tell_waiting(const GroupOptions& options, const std::string& what) {
  std::cerr << "lockstep: " + where_of(options) + ": " + what + "; gives up after " +
                   to_text(options.join_deadline) + "\n"
            << std::flush;
}

/// Waits for all keys and says now and then who is missing; of the ranks that wait, the first does.
void wait_for_ranks(c10d::Store& store, const std::vector<std::string>& keys,
                    const GroupOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + options.join_deadline;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const bool is_last = left <= kTellWaitingEvery;
    try {
      return store.wait(keys, std::min<std::chrono::milliseconds>(left, kTellWaitingEvery));
    } catch (const std::exception&) {
      if (store.check(keys)) return;  // the last rank came at the very end
      if (is_last) throw;
    }
    if (options.rank == 0 || !store.check({key_of(options, 0)})) {
      tell_waiting(options, "waiting for " + list_missing(store, keys) + " to join");
    }
  }
}

}  // namespace

std::string where_of(const GroupOptions& options) {
  return "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
         ", group " + options.name;
}

std::string to_text(std::chrono::milliseconds deadline) {
  const auto ms = deadline.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

Meeting meet(const GroupOptions& options) {
  Meeting meeting;
  if (options.host_store) {
    meeting.server = std::make_unique<store::Server>(options.store_host, options.store_port);
  }
  meeting.store = c10::make_intrusive<StoreAdapter>(
      options.store_host, options.store_port, options.join_deadline, [&](const auto& why) {
        tell_waiting(options, "the store at " +
                                  address_text(options.store_host, options.store_port) +
                                  " does not answer: " + why);
      });
  join(*meeting.store, options);
  return meeting;
}

void join(c10d::Store& store, const GroupOptions& options) {
  register_rank(store, options);
  std::vector<std::string> keys;
  for (int r = 0; r < options.size; ++r) keys.push_back(key_of(options, r));
  try {
    wait_for_ranks(store, keys, options);
  } catch (const std::exception&) {
    if (store.check(keys)) return;  // in this moment
    throw PeerLost(
        {"LS-4001", where_of(options),
         list_missing(store, keys) + " did not join within " + to_text(options.join_deadline),
         "see why they did not start (their log), or whether they use another store "
         "address or world size"});
  }
}

void forget_texts(c10d::Store& store, const GroupOptions& options, const std::string& key) {
  for (const std::string& of_rank : keys_of_texts(options, key)) store.deleteKey(of_rank);
}

std::vector<std::string> exchange_texts(c10d::Store& store, const GroupOptions& options,
                                        const std::string& key, const std::string& own,
                                        const std::string& what) {
  const std::vector<std::string> keys = keys_of_texts(options, key);
  store.set(keys[static_cast<std::size_t>(options.rank)],
            std::vector<std::uint8_t>(own.begin(), own.end()));
  try {
    store.wait(keys, options.join_deadline);
  } catch (const std::exception&) {
    if (!store.check(keys)) {  // otherwise: in this moment
      throw PeerLost({"LS-4005", where_of(options),
                      list_missing(store, keys) + " did not say " + what + " within " +
                          to_text(options.join_deadline),
                      "see whether it ended meanwhile: its own log says why"});
    }
  }
  std::vector<std::string> texts;
  for (const std::string& from : keys) {
    const auto bytes = store.get(from);
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  return texts;
}

}  // namespace lockstep::comm
