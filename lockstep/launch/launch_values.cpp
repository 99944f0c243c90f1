#include "lockstep/launch/launch_values.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

constexpr int kMostPort = 65535;

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<unsigned> stream_bits(std::string_view text) {
  const auto bits = whole_number(text);
  if (!bits || *bits < 0 || *bits > static_cast<int>(kStdout | kStderr)) return std::nullopt;
  return static_cast<unsigned>(*bits);
}

std::optional<int> port_number(std::string_view text) {
  const auto port = whole_number(text);
  if (!port || *port < 0 || *port > kMostPort) return std::nullopt;
  return port;
}

}  // namespace

unsigned StreamChoice::of(int local_rank) const {
  if (of_rank.empty()) return of_all;
  const auto found = of_rank.find(local_rank);
  return found == of_rank.end() ? 0 : found->second;
}

bool StreamChoice::any() const {
  return of_all != 0 || std::any_of(of_rank.begin(), of_rank.end(),
                                    [](const auto& one) { return one.second != 0; });
}

std::optional<int> parse_count(std::string_view text) { return whole_number(trim(text)); }

std::optional<NodeRange> parse_nodes(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.empty() || parts.size() > 2) return std::nullopt;
  const auto least = parse_count(parts.front());
  const auto most = parse_count(parts.back());
  if (!least || !most || *least < 1 || *most < *least) return std::nullopt;
  return NodeRange{*least, *most};
}

std::optional<StreamChoice> parse_streams(std::string_view text) {
  StreamChoice choice;
  if (const auto bits = stream_bits(text)) {
    choice.of_all = *bits;
    return choice;
  }
  for (const std::string& item : split(text, ',')) {
    const auto parts = split(item, ':');
    if (parts.size() != 2) return std::nullopt;
    const auto rank = whole_number(parts[0]);
    const auto bits = stream_bits(parts[1]);
    if (!rank || *rank < 0 || !bits) return std::nullopt;
    choice.of_rank[*rank] = *bits;
  }
  if (choice.of_rank.empty()) return std::nullopt;
  return choice;
}

std::optional<std::set<int>> parse_ranks(std::string_view text) {
  std::set<int> ranks;
  for (const std::string& item : split(text, ',')) {
    const auto rank = parse_count(item);
    if (!rank || *rank < 0) return std::nullopt;
    ranks.insert(*rank);
  }
  return ranks;
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  text = trim(text);
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos || close == 1) return std::nullopt;
    Endpoint endpoint{std::string(text.substr(1, close - 1))};
    text.remove_prefix(close + 1);
    if (text.empty()) return endpoint;
    const auto port = text.front() == ':' ? port_number(text.substr(1)) : std::nullopt;
    if (!port) return std::nullopt;
    endpoint.port = *port;
    return endpoint;
  }
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (text.empty() || (text.front() == ':' && colons == 1)) return std::nullopt;
  if (colons != 1) return Endpoint{std::string(text)};  // a name, or a bare address of IPv6
  const auto colon = text.find(':');
  const auto port = port_number(text.substr(colon + 1));
  if (!port) return std::nullopt;
  return Endpoint{std::string(text.substr(0, colon)), *port};
}

std::optional<std::map<std::string, std::string>> parse_settings(std::string_view text) {
  std::map<std::string, std::string> settings;
  for (const std::string& item : split(text, ',')) {
    if (trim(item).empty()) continue;
    const auto equals = item.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string_view key = trim(std::string_view(item).substr(0, equals));
    if (key.empty()) return std::nullopt;
    settings[std::string(key)] = trim(std::string_view(item).substr(equals + 1));
  }
  return settings;
}

std::vector<std::string> parse_filters(std::string_view text) {
  std::vector<std::string> filters(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_comma = text[i] == ',';
    if (is_comma && i + 1 < text.size() && text[i + 1] == ',') {
      filters.back() += ',';
      ++i;
    } else if (is_comma) {
      filters.emplace_back();
    } else {
      filters.back() += text[i];
    }
  }
  std::erase_if(filters, [](const std::string& filter) { return filter.empty(); });
  return filters;
}

std::optional<int> parse_signal(std::string_view name) {
  name = trim(name);
  if (!name.starts_with("SIG")) return std::nullopt;
  name.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known == nullptr || name != known) continue;
    return number == SIGKILL || number == SIGSTOP ? std::nullopt : std::optional(number);
  }
  return std::nullopt;
}

std::string signal_name(int number) {
  const char* known = ::sigabbrev_np(number);
  return known == nullptr ? "signal " + std::to_string(number) : "SIG" + std::string(known);
}

std::optional<bool> parse_switch(std::string_view text) {
  std::string word(trim(text));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word.empty() || word == "false" || word == "no" || word == "off") return false;
  const auto number = whole_number(word);
  if (!number) return std::nullopt;
  return *number != 0;
}

}  // namespace lockstep::launch
