#include "lockstep/checkpoint/names/match_names.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lockstep/checkpoint/names/listed.h"
#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/prefixes.h"

namespace lockstep::checkpoint {
namespace {

using Places = std::unordered_map<std::string_view, std::size_t>;

/// Where each name stands; a tensor's own name goes before aliases of others.
template <typename Tensor>
Places places_of(std::span<const Tensor> tensors) {
  Places places;
  for (std::size_t i = 0; i < tensors.size(); ++i) places.try_emplace(tensors[i].name, i);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const std::string& alias : tensors[i].aliases) places.try_emplace(alias, i);
  }
  return places;
}

template <typename Tensor>
std::vector<std::string> all_names(std::span<const Tensor> tensors) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) {
    names.push_back(tensor.name);
    names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  }
  return names;
}

std::optional<std::size_t> find(const Places& places, const WantedTensor& wanted) {
  if (const auto at = places.find(wanted.name); at != places.end()) return at->second;
  for (const std::string& alias : wanted.aliases) {
    if (const auto at = places.find(alias); at != places.end()) return at->second;
  }
  return std::nullopt;
}

/// Only what would help: a prefix, or the names of a family that has a table.
std::string hint_for(std::span<const StoredTensor> stored, std::span<const WantedTensor> wanted) {
  const std::vector<std::string> names = all_names(stored);
  const PrefixHint hint = find_prefix_hint(names, all_names(wanted));
  if (!hint.prefix.empty()) {
    return std::string("did you mean to ") + (hint.add ? "add" : "strip") + " `" + hint.prefix +
           "`?";
  }
  const NameMap* family = guess_family(names);
  if (family == nullptr) return {};
  return "the names are those of " + std::string(family->theirs) +
         ": did you mean to rename from " + std::string(family->family) + "?";
}

/// \param between stands before each of the lists.
std::string text_of(const MatchReport& report, std::string_view between) {
  std::string text =
      "matched " + std::to_string(report.matched.size()) + " of " + std::to_string(report.wanted);
  if (!report.hint.empty()) text += "; " + report.hint;
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += std::string(between) + std::string(what) + " (" + std::to_string(names.size()) +
            "): " + listed(names);
  };
  add("missing", report.missing);
  add("unexpected", report.unexpected);
  add("of another shape", report.other_shape);
  add("of another type", report.other_dtype);
  return text;
}

}  // namespace

bool MatchReport::is_complete() const {
  return missing.empty() && unexpected.empty() && other_shape.empty() && other_dtype.empty();
}

MatchReport match_names(std::span<const StoredTensor> stored,
                        std::span<const WantedTensor> wanted) {
  const Places places = places_of(stored);
  MatchReport report;
  report.wanted = wanted.size();
  std::set<std::size_t> used;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const WantedTensor& want = wanted[i];
    const auto at = find(places, want);
    if (!at) {
      report.missing.push_back(want.name);
      continue;
    }
    used.insert(*at);
    const StoredTensor& found = stored[*at];
    if (found.shape != want.shape) {
      report.other_shape.push_back(want.name + " " + to_text(found.shape) + " instead of " +
                                   to_text(want.shape));
      continue;
    }
    report.matched.push_back({*at, i, found.dtype == want.dtype});
    if (found.dtype == want.dtype) continue;
    report.other_dtype.push_back(want.name + " " + found.dtype + " instead of " + want.dtype);
  }
  const Places known = places_of(wanted);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (used.contains(i) || known.contains(stored[i].name)) continue;
    report.unexpected.push_back(stored[i].name);
  }
  if (used.empty() && !wanted.empty()) report.hint = hint_for(stored, wanted);
  return report;
}

std::string to_text(const MatchReport& report) { return text_of(report, "\n  "); }

std::optional<Problem> match_fault(const MatchReport& report, const MatchRules& rules,
                                   const std::string& where) {
  if (report.matched.empty() && report.wanted > 0) {
    return Problem{"LS-5014", where, text_of(report, "; "),
                   report.hint.empty() ? "load the checkpoint of a model like this one"
                                       : "change the names so, or load another checkpoint"};
  }
  const bool shapes_fit =
      report.missing.empty() && report.unexpected.empty() && report.other_shape.empty();
  if ((shapes_fit || rules.partial) && (report.other_dtype.empty() || rules.any_dtype)) {
    return std::nullopt;
  }
  return Problem{"LS-5006", where, text_of(report, "; "),
                 "load it into the model that it was saved from, or only the part that fits"};
}

}  // namespace lockstep::checkpoint
