#include "lockstep/rundir/resume_changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lockstep/config/batch_shape.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"
#include "lockstep/rundir/data_manifest.h"
#include "lockstep/rundir/resume_rules.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFilesDiffer =
    "the files of data.train have other names or sizes than those that the checkpoint was trained "
    "on";
constexpr std::string_view kRanksDiffer =
    "as many for each rank as before, on another number of ranks; batch.global_batch keeps it";
constexpr std::string_view kFilesMoved = "names and sizes of the files are the same";
constexpr std::string_view kBitsStay = "virtual_ranks keep the bits";
constexpr std::string_view kNotKnown = "this version does not know it";
constexpr std::size_t kMostUnknown = 16;

const ResumeRule* find_rule(std::string_view key) {
  const auto rules = resume_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const ResumeRule& one) { return one.key == key; });
  return rule == rules.end() ? nullptr : &*rule;
}

/// Cut between characters where it is long: it is repeated to people, and as JSON.
std::string shown(std::string text) {
  constexpr std::size_t kMost = 200;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::string dumped(const json& value) {
  return shown(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Any text as characters that can be printed.
std::string printable(const std::string& text) {
  const std::string quoted =
      json(text.substr(0, 256)).dump(-1, ' ', false, json::error_handler_t::replace);
  return shown(quoted.substr(1, quoted.size() - 2));
}

/// `"auto"` where a word stands for no value.
std::string unset_text(const config::Option* option) {
  if (option == nullptr || option->words.empty() || option->keeps_word) return "unset";
  return "\"" + std::string(option->words.front()) + "\"";
}

/// \param option null = of a key not known.
std::string value_text(const config::Option* option, const json& value) {
  if (value.is_null()) return unset_text(option);
  return value.is_object() ? "an object" : dumped(value);
}

const json* find_value(const json& document, const config::Option& option) {
  const auto section = document.find(option.section());
  if (section == document.end() || !section->is_object()) return nullptr;
  const auto value = section->find(option.name());
  return value == section->end() ? nullptr : &*value;
}

/// What this version can read of a stored configuration; the rest as default.
config::RunConfig readable_config(const json& stored) {
  config::RunConfig config;
  for (const config::Option& option : config::options()) {
    const json* value = find_value(stored, option);
    if (value == nullptr || value->is_object()) continue;
    json alone;
    alone[std::string(option.section())][std::string(option.name())] = *value;
    try {
      const config::RunConfig read = config::from_json_text(alone.dump());
      option.set(config, option.get(read));
    } catch (const UsageError&) {  // its text is compared all the same
    }
  }
  return config;
}

/// Without what is nested deeper than any configuration, so that it can be copied and shown.
json parsed(const std::string& text) {
  constexpr int kDeepest = 4;
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  return json::parse(text, is_shallow, /*allow_exceptions=*/false);
}

/// Every version has stored the family.
bool is_configuration(const json& stored) {
  if (!stored.is_object()) return false;
  const json* family = find_value(stored, *config::find_option("model.family"));
  return family != nullptr && family->is_string();
}

/// "a//b/" names what "a/b" does; a command is taken as it stands.
bool is_same_place(const json& a, const json& b) {
  if (!a.is_string() || !b.is_string()) return a == b;
  const auto text_a = a.get<std::string>();
  const auto text_b = b.get<std::string>();
  if (text_a.starts_with('!') || text_b.starts_with('!')) return text_a == text_b;
  const auto normal = [](const std::string& text) {
    return (fs::path(text) / "").lexically_normal();
  };
  return text_a.empty() == text_b.empty() && normal(text_a) == normal(text_b);
}

/// One of the two runs that are compared.
class Side {
 public:
  Side(config::RunConfig config, json document, int ranks)
      : config_(std::move(config)), document_(std::move(document)), ranks_(ranks) {
    if (ranks_ == 0) ranks_ = config_.parallel.data.value_or(0);
    batch_ = settled();
  }

  [[nodiscard]] const config::RunConfig& config() const { return config_; }
  [[nodiscard]] const json& document() const { return document_; }

  /// What the run goes by, as JSON; nothing when it cannot be said.
  [[nodiscard]] std::optional<json> value(const config::Option& option) const {
    if (option.key == "parallel.data") return known(ranks_);
    if (option.key == "batch.global_batch") {
      if (config_.batch.global_batch) return *config_.batch.global_batch;
      return known(batch_.global_batch);
    }
    if (option.key == "batch.micro_batch") {
      return known(config_.batch.finds_micro_batch ? 0 : batch_.micro_batch);
    }
    const json* stored = find_value(document_, option);
    if (stored != nullptr) return *stored;
    static const json defaults = json::parse(config::to_json_text({}));
    return *find_value(defaults, option);
  }

  /// Whether [model] and the other choices leave the key a say.
  [[nodiscard]] bool reads(const config::Option& option) const {
    if (option.key == "data.seq_len") return config_.model.family == config::Family::gpt;
    return config::is_read(option, config_);
  }

 private:
  static std::optional<json> known(std::int64_t number) {
    return number > 0 ? std::optional<json>(number) : std::nullopt;
  }

  /// With virtual ranks the numbers of a step are the same on any ranks. Zeros: not known.
  [[nodiscard]] config::BatchShape settled() const {
    config::RunConfig config = config_;
    int ranks = ranks_;
    if (config.parallel.virtual_ranks) {
      config.parallel.data.reset();
      config.batch.accumulation.reset();
      ranks = 1;
    }
    if (ranks == 0) return {};
    const config::BatchShapeResult result = config::settle_batch(config, ranks);
    return result.problems.empty() ? result.shape : config::BatchShape{};
  }

  config::RunConfig config_;
  json document_;
  int ranks_;
  config::BatchShape batch_;
};

class Comparison {
 public:
  Comparison(Side stored, Side present, const ResumeFacts& facts)
      : stored_(std::move(stored)), present_(std::move(present)) {
    const bool known = !facts.stored_data.empty() && !facts.present_data.empty();
    same_files_ = known && facts.stored_data == facts.present_data;
    other_files_ = known && facts.stored_data != facts.present_data;
  }

  std::vector<ResumeChange> changes() {
    compare(*config::find_option("model.family"));
    if (!changes_.empty()) return std::move(changes_);
    for (const config::Option& option : config::options()) {
      const bool of_other_rule = option.section() == "optimizer" && has("optimizer.name");
      if (!of_other_rule) compare(option);
    }
    add_unknown();
    if (other_files_ && !has("data.train") && !has("data.format")) {
      changes_.push_back({kDataKey, kRefused, "", "", std::string(kFilesDiffer)});
    }
    return std::move(changes_);
  }

 private:
  [[nodiscard]] bool has(std::string_view key) const {
    return std::any_of(changes_.begin(), changes_.end(),
                       [&](const ResumeChange& one) { return one.key == key; });
  }

  void compare(const config::Option& option) {
    if (!stored_.reads(option) || !present_.reads(option)) return;
    const std::optional<json> before = stored_.value(option);
    const std::optional<json> now = present_.value(option);
    if (!before || !now) return;
    const bool is_place = option.key == "data.train" || option.key == "data.eval";
    if (is_place ? is_same_place(*before, *now) : *before == *now) return;
    const auto [change, why] = classed(*find_rule(option.key), *before, *now);
    changes_.push_back({std::string(option.key), change, value_text(&option, *before),
                        value_text(&option, *now), std::string(why)});
  }

  /// The rule's class, but for the keys whose values decide it.
  [[nodiscard]] std::pair<ChangeClass, std::string_view> classed(const ResumeRule& rule,
                                                                 const json& before,
                                                                 const json& now) const {
    if (rule.key == "optimizer.momentum" && (before == 0) != (now == 0)) {
      return {kImpossible, kOtherTensors};  // momentum is kept in a tensor, unless it is 0
    }
    if ((rule.key == "run.steps" || rule.key == "run.epochs") && has_constant_rate()) {
      return {kFree, kNumbersStay};
    }
    if (rule.key == "batch.global_batch" && goes_with_ranks()) return {kNoted, kRanksDiffer};
    if (rule.key == "data.train" && same_files_) return {kNoted, kFilesMoved};
    if (rule.key == "parallel.virtual_ranks" && before.is_null()) return {kNoted, rule.why};
    if (rule.key == "parallel.data" && has_fixed_bits()) return {rule.change, kBitsStay};
    return {rule.change, rule.why};
  }

  /// Nobody asked for another batch: a step has as many samples for each rank as before.
  [[nodiscard]] bool goes_with_ranks() const {
    const config::BatchSection& before = stored_.config().batch;
    const config::BatchSection& now = present_.config().batch;
    return !before.global_batch && !now.global_batch && before.micro_batch == now.micro_batch &&
           before.accumulation == now.accumulation;
  }

  [[nodiscard]] bool has_constant_rate() const {
    constexpr auto kConstant = config::ScheduleName::constant;
    return stored_.config().schedule.name == kConstant &&
           present_.config().schedule.name == kConstant;
  }

  [[nodiscard]] bool has_fixed_bits() const {
    const auto& leaves = present_.config().parallel.virtual_ranks;
    return leaves.has_value() && leaves == stored_.config().parallel.virtual_ranks;
  }

  /// What a newer version stored beside what this one knows.
  void add_unknown() {
    std::size_t count = 0;
    for (const auto& [section, keys] : stored_.document().items()) {
      if (!keys.is_object()) continue;
      for (const auto& [name, value] : keys.items()) {
        const std::string key = section + "." + name;
        if (config::find_option(key) != nullptr) continue;
        if (++count > kMostUnknown) return;
        changes_.push_back(
            {printable(key), kNoted, value_text(nullptr, value), "unset", std::string(kNotKnown)});
      }
    }
  }

  Side stored_;
  Side present_;
  bool same_files_ = false;
  bool other_files_ = false;
  std::vector<ResumeChange> changes_;
};

bool is_allowed(const ResumeChange& change, const std::vector<std::string>& allowed) {
  return std::find(allowed.begin(), allowed.end(), change.key) != allowed.end();
}

/// "run.seed is 2, the checkpoint was trained with 1: ...".
std::string text_of(const ResumeChange& change) {
  if (change.key == kDataKey) return change.why;
  return change.key + " is " + change.present + ", the checkpoint was trained with " +
         change.stored + ": " + change.why;
}

Problem impossible_problem(const ResumeChange& change, const std::string& where) {
  return {"LS-5006", where,
          change.key + " is " + change.present + ", the checkpoint has " + change.stored,
          "go on with the value of the checkpoint, or train anew with --resume none (what is there "
          "is kept)"};
}

Problem refused_problem(const ResumeChange& change, const std::string& where) {
  const bool is_data = change.key == kDataKey;
  return {"LS-5021", where, text_of(change),
          std::string(is_data ? "go on with those files" : "go on with the stored value") +
              ", accept it with --allow-change " + change.key +
              ", or train anew with --resume none"};
}

/// An example for who names a section.
std::string key_suggestion(const std::string& key) {
  for (const ResumeRule& rule : resume_rules()) {
    if (rule.change == kRefused && rule.key.starts_with(key + ".")) {
      return "name one key of it, as in " + std::string(rule.key);
    }
  }
  return config::suggest_key(key);
}

std::string library_name(const std::string& key) {
  return key == "libtorch" ? "LibTorch" : printable(key);
}

}  // namespace

int data_ranks_of(const std::string& layout) {
  constexpr std::string_view kAxis = "data=";
  constexpr int kMostRanks = 1'000'000;
  if (!layout.starts_with(kAxis)) return 0;
  int ranks = 0;
  const char* const end = layout.data() + layout.size();
  const auto [stop, error] = std::from_chars(layout.data() + kAxis.size(), end, ranks);
  const bool is_number = error == std::errc() && stop == end;
  return is_number && ranks >= 1 && ranks <= kMostRanks ? ranks : 0;
}

std::string training_data_hash(config::DataSection data) {
  if (data.format == config::DataFormat::synthetic) return "";
  data.eval.clear();
  return data_manifest(data);
}

std::vector<ResumeChange> resume_changes(const config::RunConfig& config,
                                         const std::string& stored_json, const ResumeFacts& facts) {
  json stored = parsed(stored_json);
  if (!is_configuration(stored)) return {};
  config::RunConfig before = readable_config(stored);
  return Comparison(Side(std::move(before), std::move(stored), facts.stored_ranks),
                    Side(config, json::parse(config::to_json_text(config)), facts.present_ranks),
                    facts)
      .changes();
}

std::vector<Problem> allowed_key_problems(const std::vector<std::string>& allowed) {
  std::vector<Problem> problems;
  for (const std::string& key : allowed) {
    if (key == kDataKey) continue;
    const std::string where = "--allow-change " + printable(key);
    const ResumeRule* rule = find_rule(key);
    if (rule == nullptr) {
      problems.push_back({"LS-1013", where, "is no configuration key", key_suggestion(key)});
    } else if (rule->change == kImpossible) {
      problems.push_back({"LS-1013", where, "cannot be allowed: " + std::string(rule->why),
                          "go on with the value of the checkpoint, or train anew with --resume "
                          "none"});
    }
  }
  return problems;
}

std::vector<Problem> change_problems(const std::vector<ResumeChange>& changes,
                                     const std::vector<std::string>& allowed,
                                     const std::string& where) {
  std::vector<Problem> problems = allowed_key_problems(allowed);
  for (const ResumeChange& change : changes) {
    if (change.change == kImpossible) problems.push_back(impossible_problem(change, where));
    if (change.change == kRefused && !is_allowed(change, allowed)) {
      problems.push_back(refused_problem(change, where));
    }
  }
  return problems;
}

std::vector<std::string> change_notes(const std::vector<ResumeChange>& changes,
                                      const std::vector<std::string>& allowed) {
  std::vector<std::string> notes;
  for (const ResumeChange& change : changes) {
    if (change.change == kNoted) notes.push_back(text_of(change));
    if (change.change == kRefused && is_allowed(change, allowed)) {
      notes.push_back(text_of(change) + " (allowed by --allow-change)");
    }
  }
  return notes;
}

std::vector<std::string> version_notes(const std::map<std::string, std::string>& stored,
                                       const std::map<std::string, std::string>& present) {
  std::vector<std::string> notes;
  for (const auto& [library, version] : present) {
    const auto before = stored.find(library);
    if (before == stored.end() || before->second == version) continue;
    notes.push_back(library_name(library) + " " + printable(before->second) +
                    " saved it, this is " + printable(version) +
                    ": the same numbers are not promised");
  }
  return notes;
}

}  // namespace lockstep::rundir
