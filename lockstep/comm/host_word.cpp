#include "lockstep/comm/host_word.h"

#include <chrono>
#include <exception>

#include "lockstep/store/client.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kReach{300};

std::string key_of(const GroupOptions& options, int host) {
  return options.name + "/word" + std::to_string(host);
}

}  // namespace

// A connection of their own: the group's may wait for something, or hang.
void leave_word(const GroupOptions& options, int host, const std::string& reason) noexcept {
  try {
    store::Client client(options.store_host, options.store_port, kReach);
    (void)client.compare_set(key_of(options, host), {}, {reason.begin(), reason.end()});
  } catch (const std::exception&) {
  }
}

std::string word_of(const GroupOptions& options, int host) noexcept {
  try {
    store::Client client(options.store_host, options.store_port, kReach);
    if (!client.check({key_of(options, host)})) return "";
    const store::Bytes word = client.get(key_of(options, host), kReach);
    return {word.begin(), word.end()};
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace lockstep::comm
