#include "lockstep/planner/cluster_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <variant>

#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"
#include "lockstep/config/toml_reader.h"

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

/// A cluster file, key by key.
class FileReader {
 public:
  explicit FileReader(const std::string& file) : file_(file) {}

  [[nodiscard]] ReadCluster read(std::string_view toml) {
    const config::TomlDocument document = config::read_toml(toml);
    for (const config::PlacedProblem& placed : document.problems) {
      read_.problems.push_back(placed.problem);
      read_.problems.back().where = at(placed.place);
    }
    for (const config::Entry& entry : document.entries) read_entry(entry);
    if (device_ == nullptr && read_.problems.empty()) {
      refuse(file_, "names no device", "write device = \"A100-80G\"");
    }
    if (read_.problems.empty()) read_.machine = machine();
    read_.network_named = between_ != nullptr;
    return std::move(read_);
  }

 private:
  [[nodiscard]] std::string at(const config::Place& place) const {
    return file_ + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  }
  void refuse(std::string where, std::string what, std::string fix) {
    read_.problems.push_back({"LS-6114", std::move(where), std::move(what), std::move(fix)});
  }

  void read_entry(const config::Entry& entry) {
    static constexpr auto kKeys = std::to_array<std::string_view>(
        {"device", "devices_per_host", "hosts", "inside", "between", "read_rate"});
    const std::string where = at(entry.place);
    const bool known =
        entry.section.empty() && std::find(kKeys.begin(), kKeys.end(), entry.name) != kKeys.end();
    if (!known) {
      const std::string name = entry.section.empty() ? entry.name : "[" + entry.section + "]";
      if (!entry.section.empty() && entry.section == refused_section_) return;  // said once
      refused_section_ = entry.section;
      refuse(where, "unknown key " + name,
             did_you_mean(name, kKeys,
                          "use device, devices_per_host, hosts, inside, between, read_rate"));
    } else if (entry.name == "devices_per_host" || entry.name == "hosts") {
      read_count(entry, where);
    } else if (entry.name == "read_rate") {
      read_rate(entry, where);
    } else if (const auto* text = std::get_if<std::string>(&entry.value.data)) {
      read_name(entry.name, *text, where);
    } else {
      refuse(where, entry.name + " is a name", "write it in quotes");
    }
  }

  void read_count(const config::Entry& entry, const std::string& where) {
    const auto* count = std::get_if<std::int64_t>(&entry.value.data);
    const std::int64_t most = entry.name == "hosts" ? kMostDevices : kMostPerHost;
    if (count == nullptr || *count < 1 || *count > most) {
      refuse(where, entry.name + " is a whole number", "use one from 1 to " + std::to_string(most));
    } else if (entry.name == "hosts") {
      hosts_ = *count;
    } else {
      per_host_ = *count;
    }
  }

  void read_rate(const config::Entry& entry, const std::string& where) {
    const auto* text = std::get_if<std::string>(&entry.value.data);
    const auto bytes = text == nullptr ? std::nullopt : parse_bytes(*text);
    if (bytes.value_or(0) > 0) {
      read_.read_bytes_per_s = static_cast<double>(*bytes);
    } else {
      refuse(where, "read_rate is what a host reads in a second", "write \"2GB\"");
    }
  }

  void read_name(const std::string& key, const std::string& name, const std::string& where) {
    const bool is_device = key == "device";
    for (Problem& problem : is_device ? check_device(name, where) : check_link(name, where)) {
      read_.problems.push_back(std::move(problem));
    }
    if (is_device) device_ = find_device(name);
    if (key == "inside") inside_ = find_link(name);
    if (key == "between") between_ = find_link(name);
  }

  [[nodiscard]] Machine machine() const {
    Machine machine = usual_machine(*device_, 1);
    if (per_host_ > 0) machine.devices_per_host = static_cast<int>(per_host_);
    machine.devices = std::min(machine.devices_per_host * hosts_, kMostDevices);
    if (inside_ != nullptr) machine.inside = *inside_;
    if (between_ != nullptr) machine.between = *between_;
    return machine;
  }

  const std::string& file_;
  ReadCluster read_;
  std::string refused_section_;
  const DeviceModel* device_ = nullptr;
  const LinkModel* inside_ = nullptr;
  const LinkModel* between_ = nullptr;
  std::int64_t hosts_ = 1;
  std::int64_t per_host_ = 0;  // 0 = as usual
};

}  // namespace

ReadCluster read_cluster_file(std::string_view toml, const std::string& file) {
  return FileReader(file).read(toml);
}

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
  read.network_named = !parts.link.empty();
  if (read.network_named) machine.between = *find_link(parts.link);
  read.machine = machine;
  return read;
}

}  // namespace lockstep::planner
