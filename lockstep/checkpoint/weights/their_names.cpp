#include "lockstep/checkpoint/weights/their_names.h"

#include <algorithm>

namespace lockstep::checkpoint {

std::vector<std::string> their_names_of(const NameMap& map, std::string_view ours) {
  std::vector<std::string> names;
  const auto known = find_name(map, Convention::ours, ours);
  if (!known) return names;
  for (const std::string_view pattern : theirs_of(*known->rule)) {
    names.push_back(fill_pattern(pattern, known->bindings));
  }
  return names;
}

TheirNames::TheirNames(const NameMap& map, std::span<const std::string> names) : map_(map) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto known = find_name(map, Convention::theirs, names[i]);
    if (!known) continue;
    const std::string_view pattern = theirs_of(*known->rule)[known->place];
    const auto [at, is_new] = places_.try_emplace(fill_pattern(pattern, known->bindings), i);
    if (!is_new) twice_.push_back({at->second, i});
  }
}

std::optional<std::size_t> TheirNames::find(std::string_view plain) const {
  const auto found = places_.find(std::string(plain));
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

bool TheirNames::has(std::string_view ours) const {
  const std::vector<std::string> names = their_names_of(map_, ours);
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return find(name).has_value();
  });
}

}  // namespace lockstep::checkpoint
