#include "lockstep/config/slurm_text.h"

#include <algorithm>
#include <cctype>

#include "lockstep/config/convert.h"

namespace lockstep::config {
namespace {

bool is_host_letter(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= 253 && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), is_host_letter);
}

std::optional<int> small_number(std::string_view text) {
  std::int64_t number = 0;
  if (!read_integer(text, number) || number < 1 || number > 1'000'000) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

std::string first_slurm_host(std::string_view node_list) {
  const std::size_t bracket = node_list.find_first_of("[,");
  std::string host(node_list.substr(0, bracket));
  if (bracket != std::string_view::npos && node_list[bracket] == '[') {
    const std::string_view inside = node_list.substr(bracket + 1);
    host += inside.substr(0, inside.find_first_of(",-]"));
    const std::size_t close = inside.find(']');
    if (close == std::string_view::npos) return {};
    // What follows the bracket belongs to the name up to the next comma: "n[1-2]-ib".
    const std::string_view tail = inside.substr(close + 1);
    host += tail.substr(0, tail.find(','));
  }
  return is_host(host) ? host : std::string();
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

}  // namespace lockstep::config
