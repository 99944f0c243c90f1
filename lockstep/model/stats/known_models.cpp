#include "lockstep/model/stats/known_models.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"
#include "lockstep/model/stats/known_tables.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kNamesOffered = 3;
constexpr std::size_t kLongestName = 64;  // that is compared with all others

std::vector<KnownModel> all_models() {
  std::vector<KnownModel> models;
  append_gpt_models(models);
  append_llama_models(models);
  append_other_models(models);
  return models;
}

char plain(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' ? '-' : c;
}

std::string plain_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  std::string plain_text(slash == std::string_view::npos ? name : name.substr(slash + 1));
  std::transform(plain_text.begin(), plain_text.end(), plain_text.begin(), plain);
  return plain_text;
}

/// "llama-3-8b, llama-3-70b or llama-2-7b"
std::string nearest_names(const std::string& name) {
  std::vector<std::pair<std::size_t, std::string_view>> by_distance;
  for (const KnownModel& model : known_models()) {
    by_distance.emplace_back(edit_distance(name, model.architecture.name), model.architecture.name);
  }
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string names;
  for (std::size_t i = 0; i < kNamesOffered; ++i) {
    if (i > 0) names += i + 1 == kNamesOffered ? " or " : ", ";
    names += by_distance[i].second;
  }
  return names;
}

}  // namespace

std::span<const KnownModel> known_models() {
  static const std::vector<KnownModel> models = all_models();
  return models;
}

const KnownModel* find_known_model(std::string_view name) {
  const std::string wanted = plain_name(name);
  const auto models = known_models();
  const auto found = std::find_if(models.begin(), models.end(), [&](const KnownModel& model) {
    return plain_name(model.architecture.name) == wanted;
  });
  return found == models.end() ? nullptr : &*found;
}

const KnownModel& known_model(std::string_view name, const std::string& where) {
  if (const KnownModel* model = find_known_model(name)) return *model;
  const std::string wanted = plain_name(name.substr(0, kLongestName));
  throw UsageError({{"LS-6021", where, "no model is called " + std::string(name),
                     "did you mean " + nearest_names(wanted) +
                         "? Other models: --model config.json or --params 7e9"}});
}

}  // namespace lockstep::model
