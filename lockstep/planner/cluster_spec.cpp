#include "lockstep/planner/cluster_spec.h"

#include <charconv>
#include <utility>

namespace lockstep::planner {
namespace {

constexpr std::int64_t kMostPerHost = 1024;
constexpr std::int64_t kMostDevices = 1'000'000;

/// A whole number from 1 up; 0 when it is none.
std::int64_t count_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

struct Parts {
  std::int64_t per_host = 0;
  std::string_view device;
  std::int64_t hosts = 1;
  std::string_view link;
};

/// The text before and behind the first `mark`; behind is empty where there is none.
std::pair<std::string_view, std::string_view> cut_at(std::string_view text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

Parts parts_of(std::string_view spec) {
  Parts parts;
  const auto [hosts_text, link] = cut_at(spec, '@');
  const auto [host, hosts] = cut_at(hosts_text, '*');
  const auto [per_host, device] = cut_at(host, 'x');
  parts.per_host = count_of(per_host);
  parts.device = device;
  parts.link = link;
  if (host.size() != hosts_text.size()) parts.hosts = count_of(hosts);
  return parts;
}

}  // namespace

ReadCluster read_cluster(std::string_view spec, std::string_view where) {
  ReadCluster read;
  const Parts parts = parts_of(spec);
  if (parts.per_host == 0 || parts.per_host > kMostPerHost || parts.hosts == 0 ||
      parts.hosts > kMostDevices / parts.per_host || parts.device.empty()) {
    read.problems.push_back({"LS-6114", std::string(where),
                             "no cluster is written " + std::string(spec.substr(0, 128)),
                             "write 8xA100-80G*4 for four hosts of eight devices"});
    return read;
  }
  read.problems = check_device(parts.device, where);
  if (!parts.link.empty()) {
    for (Problem& problem : check_link(parts.link, where)) {
      read.problems.push_back(std::move(problem));
    }
  }
  if (!read.problems.empty()) return read;
  Machine machine = usual_machine(*find_device(parts.device), parts.per_host * parts.hosts);
  machine.devices_per_host = static_cast<int>(parts.per_host);
  if (!parts.link.empty()) machine.between = *find_link(parts.link);
  read.machine = machine;
  return read;
}

}  // namespace lockstep::planner
