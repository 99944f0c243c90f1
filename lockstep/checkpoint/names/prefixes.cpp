#include "lockstep/checkpoint/names/prefixes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::checkpoint {
namespace {

constexpr auto kMarks = std::to_array<std::string_view>(
    {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."});
constexpr auto kPrefixes =
    std::to_array<std::string_view>({"module.", "model.", "network.", "net.", "backbone."});
constexpr std::string_view kDdp = "module.";
constexpr std::size_t kMostDeep = 6;   // prefixes in a row
constexpr std::size_t kMostTried = 8;  // such rows
constexpr std::size_t kMostHints = 8;  // names of the model that a hint is looked for with

using Names = std::vector<std::string>;
using NameSpan = std::span<const std::string>;
using Places = std::unordered_map<std::string_view, std::size_t>;

bool has_prefix(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix);
}

/// Two equal names, if there are any.
std::optional<std::string> twice(NameSpan names) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) return name;
  }
  return std::nullopt;
}

std::string note(std::string_view prefix, std::size_t count, std::size_t all) {
  return "stripped `" + std::string(prefix) + "` from " +
         format_count(static_cast<std::int64_t>(count)) + " of " +
         counted(static_cast<std::int64_t>(all), "name");
}

/// Without `mark` where it begins a name or follows a dot.
std::string without_mark(std::string_view name, std::string_view mark) {
  std::string kept;
  while (!name.empty()) {
    if (has_prefix(name, mark)) {
      name.remove_prefix(mark.size());
      continue;
    }
    const std::size_t end = std::min(name.find('.'), name.size() - 1) + 1;
    kept += name.substr(0, end);
    name.remove_prefix(end);
  }
  return kept;
}

/// Takes `mark` out of all names and says so.
void strip_mark(Stripped& stripped, std::string_view mark) {
  std::size_t count = 0;
  for (std::string& name : stripped.names) {
    if (name.find(mark) == std::string::npos) continue;
    std::string kept = without_mark(name, mark);
    count += kept == name ? 0 : 1;
    name = std::move(kept);
  }
  if (count == 0) return;
  stripped.prefixes.emplace_back(mark);
  stripped.notes.push_back(note(mark, count, stripped.names.size()));
}

Stripped without_marks(NameSpan names) {
  Stripped stripped{{names.begin(), names.end()}, {}, {}, {}};
  for (const std::string_view mark : kMarks) strip_mark(stripped, mark);
  const auto same = twice(stripped.names);
  if (!same) return stripped;
  std::string marks;
  for (const std::string& mark : stripped.prefixes) {
    marks += (marks.empty() ? "`" : ", `") + mark + "`";
  }
  return {{names.begin(), names.end()},
          {},
          {},
          {"left " + marks + " where it is: without it, two tensors would be called " + *same}};
}

void strip_ddp(Stripped& stripped) {
  const auto all_have_it = [&] {
    return !stripped.names.empty() &&
           std::all_of(stripped.names.begin(), stripped.names.end(),
                       [](const std::string& name) { return has_prefix(name, kDdp); });
  };
  std::string taken;
  while (taken.size() < kMostDeep * kDdp.size() && all_have_it()) {
    for (std::string& name : stripped.names) name.erase(0, kDdp.size());
    taken += kDdp;
  }
  if (taken.empty()) return;
  stripped.prefixes.push_back(taken);
  stripped.notes.push_back(note(taken, stripped.names.size(), stripped.names.size()));
}

/// The first `prefixes` of a name together: "", "module.", "module.model.".
std::vector<std::string_view> rows_before(std::string_view name) {
  std::vector<std::string_view> rows{{}};
  for (std::size_t end = 0; rows.size() <= kMostDeep;) {
    const std::string_view rest = name.substr(end);
    const auto* next = std::find_if(kPrefixes.begin(), kPrefixes.end(),
                                    [&](auto prefix) { return has_prefix(rest, prefix); });
    if (next == kPrefixes.end()) break;
    end += next->size();
    rows.push_back(name.substr(0, end));
  }
  return rows;
}

/// Rows of prefixes that stand before these names, the most frequent first, "" among them.
Names rows_of(NameSpan names) {
  std::map<std::string_view, std::size_t> counts;
  for (const std::string& name : names) {
    for (const std::string_view row : rows_before(name)) ++counts[row];
  }
  std::vector<std::pair<std::string_view, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Names rows;
  for (std::size_t i = 0; i < std::min(sorted.size(), kMostTried); ++i) {
    rows.emplace_back(sorted[i].first);
  }
  return rows;
}

/// A name as a way makes it.
struct Changed {
  std::string name;       // the old one where changes are listed
  std::size_t taken = 0;  // letters of the old one's beginning
  bool added = false;
};

/// One way of changing names, and what comes of it.
struct Way {
  std::string strip;        // from every name that has it
  std::string add;          // to names that only so are wanted
  bool one_by_one = false;  // instead of `strip`: from each name the row that makes it wanted
  Names names{};
  std::vector<Changed> changes{};  // without those that change nothing
  std::size_t matches = 0;
  std::vector<std::size_t> given_to{};  // for each wanted name: which of the names; npos = none
};

class Search {
 public:
  Search(NameSpan names, NameSpan wanted) : names_(names) {
    for (const std::string& name : wanted) wanted_.try_emplace(name, wanted_.size());
  }

  /// The best way; nothing when none makes any name wanted. Sets `rival()`.
  std::optional<Way> run(NameSpan wanted) {
    const Names rows = rows_of(names_);
    for (const std::string& add : rows_of(wanted)) {
      for (const std::string& row : rows) try_way({row, add});
      try_way({{}, add, true});
    }
    return best_;
  }
  /// Another way that fits as well as the best and gives some wanted name to another tensor.
  [[nodiscard]] const std::optional<Way>& rival() const { return rival_; }

 private:
  void try_way(Way way) {
    for (const std::string& name : names_) {
      Changed now = change(way, name);
      way.names.push_back(now.name);
      if (now.name != name) way.changes.push_back({name, now.taken, now.added});
    }
    if (!way.changes.empty() && twice(way.names)) return;
    way.given_to.assign(wanted_.size(), std::string::npos);
    for (std::size_t i = 0; i < way.names.size(); ++i) {
      const auto place = wanted_.find(way.names[i]);
      if (place == wanted_.end()) continue;
      way.given_to[place->second] = i;
      ++way.matches;
    }
    if (way.matches > 0) compare(std::move(way));
  }

  [[nodiscard]] std::size_t letters_to_take(const Way& way, const std::string& name) const {
    if (!way.one_by_one) return has_prefix(name, way.strip) ? way.strip.size() : 0;
    for (const std::string_view row : rows_before(name)) {
      const std::string rest = name.substr(row.size());
      if (wanted_.contains(rest) || wanted_.contains(way.add + rest)) return row.size();
    }
    return 0;
  }

  [[nodiscard]] Changed change(const Way& way, const std::string& name) const {
    const std::size_t taken = letters_to_take(way, name);
    std::string kept = name.substr(taken);
    if (way.add.empty() || wanted_.contains(kept)) return {kept, taken, false};
    std::string longer = way.add + kept;
    if (wanted_.contains(longer)) return {longer, taken, true};
    return {kept, taken, false};
  }

  /// Most matches win, then the simpler form, then fewest changes. Ways of one form that give a
  /// name to different tensors are rivals.
  void compare(Way way) {
    if (best_ && way.matches < best_->matches) return;
    const bool ties = best_ && way.matches == best_->matches;
    if (ties && form_of(way) > form_of(*best_)) return;
    const bool simpler = !ties || form_of(way) < form_of(*best_);
    const bool better = simpler || way.changes.size() < best_->changes.size();
    if (simpler) {
      rival_.reset();
    } else if (way.given_to != best_->given_to) {
      rival_ = better ? *best_ : way;
    }
    if (better) best_ = std::move(way);
  }

  enum class Form : std::uint8_t { same, all_alike, mixed };
  [[nodiscard]] Form form_of(const Way& way) const {
    if (way.changes.empty()) return Form::same;
    const Changed& first = way.changes.front();
    const bool alike = std::all_of(way.changes.begin(), way.changes.end(), [&](const Changed& c) {
      return c.added == first.added && c.name.compare(0, c.taken, first.name, 0, first.taken) == 0;
    });
    return alike && way.changes.size() == names_.size() ? Form::all_alike : Form::mixed;
  }

  NameSpan names_;
  Places wanted_;
  std::optional<Way> best_;
  std::optional<Way> rival_;
};

std::string described(const Way& way) {
  std::string text;
  if (way.one_by_one) text = "stripping each name by itself";
  if (!way.strip.empty()) text = "stripping `" + way.strip + "`";
  if (way.add.empty()) return text.empty() ? "changing nothing" : text;
  return text + (text.empty() ? "" : " and ") + "adding `" + way.add + "`";
}

/// What a way took off and put on, counted.
void add_notes(Stripped& stripped, const Way& way) {
  const auto all = static_cast<std::int64_t>(way.names.size());
  std::map<std::string, std::size_t> taken;
  std::int64_t added = 0;
  for (const Changed& change : way.changes) {
    if (change.taken > 0) ++taken[change.name.substr(0, change.taken)];
    if (change.added) ++added;
  }
  for (const auto& [prefix, count] : taken) {
    stripped.prefixes.push_back(prefix);
    stripped.notes.push_back(note(prefix, count, way.names.size()));
  }
  if (added == 0) return;
  stripped.added = way.add;
  stripped.notes.push_back("added `" + way.add + "` to " + format_count(added) + " of " +
                           counted(all, "name"));
}

std::size_t count_wanted(NameSpan names, NameSpan wanted) {
  const std::unordered_set<std::string_view> known(wanted.begin(), wanted.end());
  return static_cast<std::size_t>(std::count_if(
      names.begin(), names.end(), [&](const std::string& name) { return known.contains(name); }));
}

std::string with_dot(const std::string& prefix) {
  return prefix.ends_with('.') ? prefix : prefix + ".";
}

/// Takes those prefixes off as often as they stand before `name`. \returns which did.
std::set<std::string> strip_front(std::string& name, const Names& prefixes) {
  std::set<std::string> taken;
  const auto next = [&] {
    return std::find_if(prefixes.begin(), prefixes.end(),
                        [&](const std::string& prefix) { return has_prefix(name, prefix); });
  };
  for (auto prefix = next(); prefix != prefixes.end(); prefix = next()) {
    name.erase(0, prefix->size());
    taken.insert(*prefix);
  }
  return taken;
}

/// Prefixes p for which p + one of `shorter` is one of `longer`.
std::set<std::string> prefixes_between(NameSpan longer, NameSpan shorter) {
  std::set<std::string> prefixes;
  const std::size_t step = shorter.size() / kMostHints + 1;
  for (std::size_t i = 0; i < shorter.size(); i += step) {
    const std::string& name = shorter[i];
    for (const std::string& other : longer) {
      if (other.size() <= name.size() + 1 || !other.ends_with(name)) continue;
      const std::string prefix = other.substr(0, other.size() - name.size());
      if (prefix.ends_with('.') && prefixes.size() < kMostTried) prefixes.insert(prefix);
    }
  }
  return prefixes;
}

/// The best of them, by how many of `longer` begin with it and go on as one of `shorter`.
PrefixHint best_between(NameSpan longer, NameSpan shorter, bool add) {
  const std::unordered_set<std::string_view> known(shorter.begin(), shorter.end());
  PrefixHint best;
  for (const std::string& prefix : prefixes_between(longer, shorter)) {
    const auto matches = std::count_if(longer.begin(), longer.end(), [&](std::string_view name) {
      return has_prefix(name, prefix) && known.contains(name.substr(prefix.size()));
    });
    if (static_cast<std::size_t>(matches) > best.matches) {
      best = {prefix, add, static_cast<std::size_t>(matches)};
    }
  }
  return best;
}

}  // namespace

Stripped strip_prefixes(NameSpan names, NameSpan wanted, const std::string& where) {
  Stripped stripped = without_marks(names);
  if (count_wanted(names, wanted) > count_wanted(stripped.names, wanted)) {
    stripped = {{names.begin(), names.end()}, {}, {}, {}};  // the model itself is wrapped
  }
  Search search(stripped.names, wanted);
  const std::optional<Way> best = search.run(wanted);
  if (!best) {
    strip_ddp(stripped);
    return stripped;
  }
  if (const auto& rival = search.rival()) {
    throw BadData({"LS-5014", where,
                   described(*best) + " and " + described(*rival) + " both make " +
                       std::to_string(best->matches) + " of " +
                       counted(static_cast<std::int64_t>(names.size()), "name") +
                       " those of the model, of different tensors",
                   "say which prefix to strip"});
  }
  add_notes(stripped, *best);
  stripped.names = best->names;
  return stripped;
}

Stripped strip_given(NameSpan names, NameSpan prefixes, const std::string& where) {
  Stripped stripped{{names.begin(), names.end()}, {}, {}, {}};
  Names fronts;
  for (const std::string& given : prefixes) {
    const std::string prefix = with_dot(given);
    const bool is_mark = std::find(kMarks.begin(), kMarks.end(), prefix) != kMarks.end();
    if (is_mark) strip_mark(stripped, prefix);
    const bool is_new = std::find(fronts.begin(), fronts.end(), prefix) == fronts.end();
    if (!is_mark && prefix != "." && is_new) fronts.push_back(prefix);
  }
  std::map<std::string, std::size_t> counts;
  for (std::string& name : stripped.names) {
    for (const std::string& prefix : strip_front(name, fronts)) ++counts[prefix];
  }
  for (const std::string& prefix : fronts) {
    stripped.notes.push_back(note(prefix, counts[prefix], names.size()));
    if (counts[prefix] > 0) stripped.prefixes.push_back(prefix);
  }
  if (const auto same = twice(stripped.names)) {
    throw BadData({"LS-5014", where, "stripped so, two tensors would be called " + *same,
                   "strip less, or nothing"});
  }
  return stripped;
}

PrefixHint find_prefix_hint(NameSpan names, NameSpan wanted) {
  const PrefixHint strip = best_between(names, wanted, /*add=*/false);
  const PrefixHint add = best_between(wanted, names, /*add=*/true);
  return add.matches > strip.matches ? add : strip;
}

}  // namespace lockstep::checkpoint
