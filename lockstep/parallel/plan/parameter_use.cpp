#include "lockstep/parallel/plan/parameter_use.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {
namespace {

constexpr std::size_t kMostRanks = 8;

/// "a, b, c", cut behind `most` of them; \param count what they stand for, all together.
std::string joined(const std::vector<std::string>& texts, std::size_t most, std::size_t more) {
  std::string list;
  for (std::size_t i = 0; i < std::min(most, texts.size()); ++i) {
    list += (i == 0 ? "" : ", ") + texts[i];
  }
  return more == 0 ? list : list + " and " + std::to_string(more) + " more";
}

/// "layers.3" of "layers.3.weight"; "" of a name without layers.
std::string layer_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

struct Group {
  std::string layer;
  std::vector<std::string> names;  // inside of it
};

std::string to_text(const Group& group) {
  const std::string path = group.layer.empty() ? "" : group.layer + ".";
  if (group.names.size() == 1) return path + group.names.front();
  return path.empty() ? joined(group.names, group.names.size(), 0)
                      : path + "{" + joined(group.names, group.names.size(), 0) + "}";
}

std::vector<Group> by_layer(const std::vector<std::string>& names) {
  std::vector<Group> groups;
  for (const std::string& name : names) {
    const std::string layer = layer_of(name);
    const bool begins = groups.empty() || groups.back().layer != layer || layer.empty();
    if (begins) groups.push_back({layer, {}});
    groups.back().names.push_back(layer.empty() ? name : name.substr(layer.size() + 1));
  }
  return groups;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  const std::size_t more = ranks.size() > kMostRanks ? ranks.size() - kMostRanks : 0;
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(numbers, kMostRanks, more);
}

/// Parameters that the same ranks use stand together.
std::string partly_text(const std::vector<PartlyUsed>& partly) {
  std::vector<std::pair<std::vector<int>, std::vector<std::string>>> groups;
  for (const PartlyUsed& parameter : partly) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first == parameter.ranks; });
    if (group == groups.end()) group = groups.insert(group, {parameter.ranks, {}});
    group->second.push_back(parameter.name);
  }
  constexpr std::size_t kMostGroups = 4;
  std::vector<std::string> texts;
  std::size_t more = 0;
  for (const auto& [ranks, names] : groups) {
    if (texts.size() < kMostGroups) {
      texts.push_back(short_list(names) + " (" + rank_list(ranks) + ")");
    } else {
      more += names.size();
    }
  }
  return joined(texts, texts.size(), more);
}

}  // namespace

std::string short_list(const std::vector<std::string>& names, std::size_t most) {
  const std::vector<Group> groups = by_layer(names);
  std::vector<std::string> texts;
  std::size_t more = names.size();
  for (std::size_t i = 0; i < std::min(most, groups.size()); ++i) {
    texts.push_back(to_text(groups[i]));
    more -= groups[i].names.size();
  }
  return joined(texts, most, more);
}

std::string to_text(const ParameterUse& use) {
  std::string text;
  if (!use.never.empty()) {
    text = "parameters without a gradient on any rank: " + short_list(use.never);
  }
  if (use.partly.empty()) return text;
  text += text.empty() ? "parameters with a gradient on some ranks only: "
                       : "; with one on some ranks only: ";
  return text + partly_text(use.partly);
}

}  // namespace lockstep::parallel
