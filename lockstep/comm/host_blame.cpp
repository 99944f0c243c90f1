#include "lockstep/comm/host_blame.h"

#include <algorithm>

#include "lockstep/comm/records/flight_words.h"

namespace lockstep::comm {

std::string HostBlame::name_of(int host) const {
  return place_of(layout_.ranks_of(host).front()).host_name;
}

std::string HostBlame::title_of(int host) const {
  return "host " + name_of(host) + " (" + ranks_text(layout_.ranks_of(host)) + ")";
}

/// Whether the cause names the host, a rank of it, or an address that is only this host's.
bool HostBlame::speaks_of(const std::string& cause, int host) const {
  if (cause.starts_with("on host ")) return cause.starts_with("on host " + name_of(host) + ": ");
  const std::vector<int> named = ranks_named_in(cause);
  const std::string& own = place_of(layout_.ranks_of(layout_.host()).front()).address;
  const std::vector<int>& ranks = layout_.ranks_of(host);
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
    const std::string& address = place_of(rank).address;
    return std::find(named.begin(), named.end(), rank) != named.end() ||
           (address != own && cause.find("[" + address + "]") != std::string::npos);
  });
}

std::string HostBlame::text_of(const std::string& cause) const {
  std::vector<int> lost;
  std::vector<int> others;
  for (int host = 0; host < layout_.hosts(); ++host) {
    if (host == layout_.host()) continue;
    others.push_back(host);
    if (speaks_of(cause, host)) lost.push_back(host);
  }
  const bool is_known = !lost.empty();
  if (!is_known && speaks_of(cause, layout_.host())) {
    return (cause.starts_with("on host ") ? "" : "on host " + name_of(layout_.host()) + ": ") +
           cause;
  }
  if (!is_known) lost = others;
  std::string text = title_of(layout_.host()) + " has lost ";
  for (std::size_t i = 0; i < lost.size(); ++i) {
    text += (i == 0 ? "" : is_known ? " and " : " or ") + title_of(lost[i]);
  }
  return text + ": " + cause;
}

}  // namespace lockstep::comm
