#include "lockstep/checkpoint/names/name_map.h"

#include <algorithm>

#include "lockstep/checkpoint/names/name_tables.h"

namespace lockstep::checkpoint {
namespace {

/// Calls try_name(name) for the ways in which their name may be meant, until one is taken.
template <typename TryName>
auto first_reading(const NameMap& map, std::string_view name, TryName try_name) {
  std::string text(name);
  for (const Spelling& spelling : map.spellings) {
    if (!text.ends_with(spelling.old_end)) continue;
    text.replace(text.size() - spelling.old_end.size(), spelling.old_end.size(), spelling.end);
    break;
  }
  auto found = try_name(text);
  if (found || map.base_prefix.empty()) return found;
  return try_name(std::string(map.base_prefix) + text);
}

std::optional<KnownName> find_ours(const NameMap& map, std::string_view name) {
  for (const NameRule& rule : map.rules) {
    if (auto bindings = match_pattern(rule.ours, name)) return KnownName{&rule, 0, *bindings};
  }
  return std::nullopt;
}

std::optional<KnownName> find_theirs(const NameMap& map, std::string_view name) {
  for (const NameRule& rule : map.rules) {
    if (rule.ours_only) continue;
    const auto theirs = theirs_of(rule);
    for (std::size_t place = 0; place < theirs.size(); ++place) {
      if (auto bindings = match_pattern(theirs[place], name)) {
        return KnownName{&rule, place, *bindings};
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> reason(const NameMap& map, std::string_view name) {
  for (const Unneeded& row : map.unneeded) {
    if (match_pattern(row.theirs, name)) return row.why;
  }
  for (const Counter& row : map.counters) {
    if (match_pattern(row.theirs, name)) return "a count of batches, which ours does without";
  }
  return std::nullopt;
}

std::size_t count_known(const NameMap& map, Convention convention,
                        std::span<const std::string> names) {
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(), [&](const std::string& name) {
        const std::string_view parameter = split_state_name(name).parameter;
        if (find_name(map, convention, parameter)) return true;
        return convention == Convention::theirs && !why_unneeded(map, parameter).empty();
      }));
}

}  // namespace

std::span<const NameMap> name_maps() {
  static const std::array<NameMap, 5> maps{gpt2_names(), llama_names(), bert_names(),
                                           resnet_names(), torchvision_resnet_names()};
  return maps;
}

const NameMap* find_name_map(std::string_view family) {
  for (const NameMap& map : name_maps()) {
    if (map.family == family) return &map;
  }
  return nullptr;
}

const NameMap* guess_family(std::span<const std::string> names) {
  const NameMap* best = nullptr;
  std::size_t most = 0;
  bool alone = true;
  for (const NameMap& map : name_maps()) {
    const std::size_t known = count_known(map, Convention::theirs, names);
    if (known < most || known == 0) continue;
    alone = known > most;
    most = known;
    best = &map;
  }
  return alone && 2 * most >= names.size() ? best : nullptr;
}

std::optional<Convention> convention_of(const NameMap& map, std::span<const std::string> names) {
  const std::size_t ours = count_known(map, Convention::ours, names);
  const std::size_t theirs = count_known(map, Convention::theirs, names);
  if (ours + theirs == 0) return std::nullopt;
  return ours > theirs ? Convention::ours : Convention::theirs;
}

std::optional<KnownName> find_name(const NameMap& map, Convention convention,
                                   std::string_view name) {
  if (convention == Convention::ours) return find_ours(map, name);
  return first_reading(map, name,
                       [&](const std::string& reading) { return find_theirs(map, reading); });
}

std::string_view why_unneeded(const NameMap& map, std::string_view name) {
  return first_reading(map, name, [&](const std::string& reading) { return reason(map, reading); })
      .value_or("");
}

StateName split_state_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return {name, {}};
  return {name.substr(0, slash), name.substr(slash)};
}

std::span<const std::string_view> theirs_of(const NameRule& rule) {
  const auto* end = std::find_if(rule.theirs.begin(), rule.theirs.end(),
                                 [](std::string_view name) { return name.empty(); });
  return {rule.theirs.begin(), end};
}

}  // namespace lockstep::checkpoint
