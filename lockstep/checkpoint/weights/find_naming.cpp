#include "lockstep/checkpoint/weights/find_naming.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/names/prefixes.h"
#include "lockstep/checkpoint/weights/their_names.h"

namespace lockstep::checkpoint {
namespace {

using Names = std::vector<std::string>;
using NameSpan = std::span<const std::string>;
using WantedSpan = std::span<const WantedTensor>;

struct FamilyTable {
  std::string_view family;
  std::string_view table;
};
/// Where a family of the configuration is called otherwise than its table.
constexpr auto kFamilyTables =
    std::to_array<FamilyTable>({{"gpt", "gpt2"}, {"resnet", "resnet-torchvision"}});

/// Keys under which training scripts put a state dict beside other things.
constexpr auto kContainers = std::to_array<std::string_view>(
    {"state_dict.", "model_state_dict.", "model_state.", "params.", "app."});

/// How names are changed before anybody looks for them.
struct Candidate {
  Names names;
  Names notes;
};

bool has_prefix(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix);
}

/// No names where none has it, or where two tensors would get one name.
Candidate without_container(NameSpan names, std::string_view container) {
  Candidate candidate{{names.begin(), names.end()}, {}};
  std::int64_t count = 0;
  for (std::string& name : candidate.names) {
    if (!has_prefix(name, container)) continue;
    name.erase(0, container.size());
    ++count;
  }
  const std::unordered_set<std::string_view> different(candidate.names.begin(),
                                                       candidate.names.end());
  if (count == 0 || different.size() < candidate.names.size()) return {};
  candidate.notes.push_back("stripped `" + std::string(container) + "` from " +
                            format_count(count) + " of " +
                            counted(static_cast<std::int64_t>(names.size()), "name"));
  return candidate;
}

Names split(const std::string& list) {
  Names parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Calls test(name) for the names of each tensor. \returns the number of tensors with a yes.
template <typename Test>
std::size_t count_tensors(WantedSpan wanted, const Test& test) {
  return static_cast<std::size_t>(
      std::count_if(wanted.begin(), wanted.end(), [&](const WantedTensor& tensor) {
        return test(tensor.name) || std::any_of(tensor.aliases.begin(), tensor.aliases.end(), test);
      }));
}

/// What their files call the model, with the prefix that is missing from some or without.
Names their_names(const NameMap& map, WantedSpan wanted, bool with_base) {
  Names all;
  for (const std::string& ours : names_of(wanted)) {
    for (std::string& name : their_names_of(map, ours)) {
      if (!with_base && has_prefix(name, map.base_prefix)) name.erase(0, map.base_prefix.size());
      all.push_back(std::move(name));
    }
  }
  return all;
}

class Search {
 public:
  Search(WantedSpan wanted, std::string_view family, const std::string& where)
      : wanted_(wanted), ours_(names_of(wanted)), family_(family), where_(where) {}

  void try_ours(const Candidate& candidate, bool may_strip) {
    if (found_all()) return;
    auto made = stripped(candidate, ours_, may_strip);
    if (!made) return;
    Naming& naming = *made;
    const std::unordered_set<std::string_view> known(naming.names.begin(), naming.names.end());
    naming.matches =
        count_tensors(wanted_, [&](const std::string& name) { return known.contains(name); });
    keep_better(std::move(naming));
  }

  void try_tables(const Candidate& candidate, bool may_strip) {
    for (const NameMap* map : tables_of(family_)) {
      for (const bool with_base : {true, false}) {
        if (!with_base && (map->base_prefix.empty() || !may_strip)) continue;
        try_table(candidate, *map, with_base, may_strip);
      }
    }
  }

  [[nodiscard]] bool found_all() const { return best_ && best_->matches == wanted_.size(); }
  /// \throws what made a way doubtful, where no other finds all.
  Naming take() {
    if (doubt_ && !found_all()) {
      doubt_->fix = "say which to strip: model.weights_strip = \"PREFIX.\"";
      throw BadData(*doubt_);
    }
    return std::move(*best_);
  }

 private:
  void try_table(const Candidate& candidate, const NameMap& map, bool with_base, bool may_strip) {
    if (found_all()) return;
    auto made = stripped(candidate, their_names(map, wanted_, with_base), may_strip);
    if (!made) return;
    Naming& naming = *made;
    naming.map = &map;
    const TheirNames theirs(map, naming.names);
    naming.matches =
        count_tensors(wanted_, [&](const std::string& name) { return theirs.has(name); });
    keep_better(std::move(naming));
  }

  /// Nothing where it is doubtful what to strip.
  std::optional<Naming> stripped(const Candidate& candidate, const Names& aim, bool may_strip) {
    Naming naming{nullptr, candidate.names, candidate.notes};
    if (!may_strip) return naming;
    try {
      Stripped less = strip_prefixes(candidate.names, aim, where_);
      naming.names = std::move(less.names);
      naming.notes.insert(naming.notes.end(), less.notes.begin(), less.notes.end());
    } catch (const BadData& error) {
      if (!doubt_) doubt_ = error.problems().front();
      return std::nullopt;
    }
    return naming;
  }

  void keep_better(Naming naming) {
    if (!best_ || naming.matches > best_->matches) best_ = std::move(naming);
  }

  WantedSpan wanted_;
  Names ours_;
  std::string_view family_;
  const std::string& where_;
  std::optional<Naming> best_;
  std::optional<Problem> doubt_;
};

/// \param aim names that a prefix may hide: the model's, or a table's.
NamingHint prefix_hint(NameSpan names, const Names& aim) {
  const PrefixHint hint = find_prefix_hint(names, aim);
  if (hint.prefix.empty()) return {};
  if (hint.add) return {"with `" + hint.prefix + "` before them they would be the model's", ""};
  return {"did you mean to strip `" + hint.prefix + "`?", hint.prefix};
}

}  // namespace

std::vector<const NameMap*> tables_of(std::string_view family) {
  std::vector<const NameMap*> tables;
  if (const NameMap* map = find_name_map(family)) tables.push_back(map);
  for (const FamilyTable& row : kFamilyTables) {
    if (row.family == family) tables.push_back(find_name_map(row.table));
  }
  return tables;
}

Naming find_naming(NameSpan names, WantedSpan wanted, std::string_view family,
                   const std::string& strip, const std::string& where) {
  Search search(wanted, family, where);
  Candidate as_given{{names.begin(), names.end()}, {}};
  const bool may_strip = strip.empty();
  if (!may_strip && strip != "none") {
    Stripped stripped = strip_given(names, split(strip), where);
    as_given = {std::move(stripped.names), std::move(stripped.notes)};
  }
  search.try_ours(as_given, /*may_strip=*/false);
  if (search.found_all()) return search.take();
  std::vector<Candidate> candidates{std::move(as_given)};
  for (const std::string_view container : kContainers) {
    if (!may_strip) break;
    Candidate inner = without_container(names, container);
    if (!inner.names.empty()) candidates.push_back(std::move(inner));
  }
  for (const Candidate& candidate : candidates) {
    if (may_strip) search.try_ours(candidate, may_strip);
  }
  for (const Candidate& candidate : candidates) search.try_tables(candidate, may_strip);
  return search.take();
}

std::vector<std::string> names_of(WantedSpan wanted) {
  Names names;
  for (const WantedTensor& tensor : wanted) {
    names.push_back(tensor.name);
    names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  }
  return names;
}

NamingHint naming_hint(NameSpan names, WantedSpan wanted, std::string_view family) {
  NamingHint hint = prefix_hint(names, names_of(wanted));
  for (const NameMap* map : tables_of(family)) {
    for (const bool with_base : {true, false}) {
      if (hint.text.empty()) hint = prefix_hint(names, their_names(*map, wanted, with_base));
    }
  }
  if (!hint.text.empty()) return hint;
  const NameMap* guess = guess_family(names);
  if (guess == nullptr) return {};
  return {"the names are those of " + std::string(guess->theirs) + ", and the model is a " +
              std::string(family),
          ""};
}

}  // namespace lockstep::checkpoint
