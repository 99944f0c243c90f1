#include "lockstep/config/slurm_text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "lockstep/config/convert.h"

namespace lockstep::config {
namespace {

constexpr std::size_t kLongestHost = 253;
constexpr std::size_t kMostDigits = 9;

bool is_host_letter(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= kLongestHost && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), is_host_letter);
}

std::optional<int> small_number(std::string_view text) {
  std::int64_t number = 0;
  if (!read_integer(text, number) || number < 1 || number > 1'000'000) return std::nullopt;
  return static_cast<int>(number);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Takes off what stands before the next comma that is in no brackets.
std::string_view take_item(std::string_view& list) {
  std::size_t end = 0;
  bool inside = false;
  while (end < list.size() && (inside || list[end] != ',')) {
    if (list[end] == '[') inside = true;
    if (list[end] == ']') inside = false;
    ++end;
  }
  const std::string_view item = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return item;
}

/// "001-003" as 001, 002, 003: all in the width of the first.
bool add_range(std::string_view range, std::vector<std::string>& numbers) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  if (!is_number(first) || !is_number(last)) return false;
  std::int64_t number = 0;
  std::int64_t end = 0;
  if (!read_integer(first, number) || !read_integer(last, end) || end < number) return false;
  if (static_cast<std::size_t>(end - number) >= kMostSlurmHosts - numbers.size()) return false;
  for (; number <= end; ++number) {
    std::string text = std::to_string(number);
    if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
    numbers.push_back(std::move(text));
  }
  return true;
}

/// What stands in one pair of brackets: "10,20,25-27".
bool read_numbers(std::string_view text, std::vector<std::string>& numbers) {
  while (true) {
    const std::size_t comma = text.find(',');
    if (!add_range(text.substr(0, comma), numbers)) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

/// Adds the hosts of one item, "r[0-1]n[0-3]-ib": every choice of a number in each pair of
/// brackets.
bool expand(std::string_view item, std::vector<std::string>& hosts) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const std::size_t open = item.find('[');
    const std::string_view letters = item.substr(0, open);
    if (names.front().size() + letters.size() > kLongestHost) return false;
    for (std::string& name : names) name += letters;
    if (open == std::string_view::npos) break;
    const std::size_t close = item.find(']', open);
    std::vector<std::string> numbers;
    if (close == std::string_view::npos ||
        !read_numbers(item.substr(open + 1, close - open - 1), numbers) ||
        names.size() * numbers.size() > kMostSlurmHosts) {
      return false;
    }
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  if (!std::all_of(names.begin(), names.end(), is_host)) return false;
  if (hosts.size() + names.size() > kMostSlurmHosts) return false;
  hosts.insert(hosts.end(), names.begin(), names.end());
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> slurm_hosts(std::string_view node_list) {
  if (node_list.empty() || node_list.back() == ',') return std::nullopt;
  std::vector<std::string> hosts;
  while (!node_list.empty()) {
    if (!expand(take_item(node_list), hosts)) return std::nullopt;
  }
  return hosts;
}

std::string first_slurm_host(std::string_view node_list) {
  std::vector<std::string> hosts;
  return expand(take_item(node_list), hosts) ? hosts.front() : std::string();
}

std::optional<int> slurm_tasks_on_node(std::string_view tasks_per_node, int node) {
  while (!tasks_per_node.empty()) {
    const std::size_t comma = tasks_per_node.find(',');
    const std::string_view group = tasks_per_node.substr(0, comma);
    const std::size_t times = group.find("(x");
    std::optional<int> nodes = 1;
    if (times != std::string_view::npos) {
      if (group.back() != ')') return std::nullopt;
      nodes = small_number(group.substr(times + 2, group.size() - times - 3));
    }
    const std::optional<int> tasks = small_number(group.substr(0, times));
    if (!nodes || !tasks) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
    if (comma == std::string_view::npos) break;
    tasks_per_node.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

int slurm_port(std::string_view job_id) {
  constexpr int kFirst = 15000;
  constexpr std::size_t kDigits = 4;
  std::int64_t number = 0;
  const auto last = job_id.substr(job_id.size() > kDigits ? job_id.size() - kDigits : 0);
  if (!is_number(last) || !read_integer(last, number)) number = 0;
  return kFirst + static_cast<int>(number);
}

}  // namespace lockstep::config
