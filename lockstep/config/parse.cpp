#include "lockstep/config/parse.h"

#include <algorithm>
#include <map>

#include "lockstep/base/nearest.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/registry.h"
#include "lockstep/config/run_file.h"
#include "lockstep/config/toml_reader.h"

namespace lockstep::config {
namespace {

// One byte more than read_toml takes, so that longer files are refused and not cut.
constexpr std::size_t kLongestFile = (1 << 20) + 1;

std::string at(const std::string& file, const Place& place) {
  return file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

bool is_section(std::string_view name) {
  const auto all = sections();
  return std::any_of(all.begin(), all.end(), [&](const Section& s) { return s.name == name; });
}

Problem unknown_key(const std::string& key) {
  return {"LS-1003", "", "unknown key " + key.substr(0, 128), suggest_key(key)};
}

Problem unknown_section(const std::string& name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Section& section : sections()) {
    names.push_back(section.name);
    list += (list.empty() ? "" : ", ") + std::string(section.name);
  }
  const std::string near = nearest_name(name, names);
  return {"LS-1003", "", "unknown section [" + name.substr(0, 128) + "]",
          near.empty() ? "sections are " + list : "did you mean [" + near + "]?"};
}

Problem outside_sections(const std::string& name) {
  for (const Option& option : options()) {
    if (option.name() == name) {
      return {"LS-1003", "", name + " stands outside a section",
              "put it under [" + std::string(option.section()) + "]"};
    }
  }
  return {"LS-1003", "", "unknown key " + name.substr(0, 128) + " outside a section",
          suggest_key(name)};
}

bool has_evaluation(const DataSection& data) {
  if (data.format == DataFormat::synthetic) return data.eval_samples > 0;
  return !data.eval.empty() || (data.format == DataFormat::text && data.eval_fraction > 0);
}

std::string section_of(std::string_view key) { return std::string(key.substr(0, key.find('.'))); }

/// Collects values and problems of the file, then of --set, then checks what they mean together.
class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  void read_file(std::string_view toml) {
    TomlDocument document = read_toml(toml);
    for (PlacedProblem& placed : document.problems) {
      // A line that cannot be read may have held any key.
      for (const Section& section : sections()) doubt(section.name);
      add(placed.place, std::move(placed.problem));
    }
    for (const Entry& entry : document.entries) read_entry(entry);
    std::stable_sort(placed_.begin(), placed_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
    for (PlacedProblem& placed : placed_) {
      placed.problem.where = at(file_, placed.place);
      parsed_.problems.push_back(std::move(placed.problem));
    }
  }

  void read_sets(const std::vector<std::string>& sets) {
    for (const std::string& set : sets) read_set(set);
    drop_third_batch_number();
  }

  ParsedConfig finish() {
    check_described_model();
    // A number that other keys hang on may itself be left out for a word.
    for (const bool by_word : {true, false}) {
      for (const Given& given : given_) {
        if (find_option(given.key)->read_when.words.empty() != by_word) check_readers(given);
      }
    }
    check_evaluation_data();
    check_evaluation_keys();
    for (const Given& one : given_) {
      const bool is_left_out =
          std::find(left_out_.begin(), left_out_.end(), one.key) != left_out_.end();
      if (!is_left_out) parsed_.given.push_back(one.key);
    }
    return std::move(parsed_);
  }

 private:
  /// A key with a value, and who gave it.
  struct Given {
    std::string key;
    std::string where;
    bool by_file = true;
  };

  void add(const Place& place, Problem problem) { placed_.push_back({place, std::move(problem)}); }

  void doubt(std::string_view section) { parsed_.faulty_sections.emplace_back(section); }

  void read_entry(const Entry& entry) {
    if (entry.section.empty()) {
      doubt_owner(entry.name);
      return add(entry.place, outside_sections(entry.name));
    }
    if (!is_section(entry.section)) {
      doubt_unknown(entry.section);
      if (entry.name.empty()) add(entry.place, unknown_section(entry.section));
      return;
    }
    if (entry.name.empty()) return;
    const std::string key = entry.section + "." + entry.name;
    const Option* option = find_option(key);
    if (option == nullptr) {
      doubt(entry.section);
      return add(entry.place, unknown_key(key));
    }
    Converted result = convert(*option, entry.value);
    if (!result.code.empty()) {
      refuse(*option);
      return add(entry.place, {result.code, "", result.what, result.fix});
    }
    option->set(parsed_.config, result.value);
    given_.push_back({key, at(file_, entry.place), true});
  }

  void read_set(const std::string& set) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      parsed_.problems.push_back({"LS-1008", "--set " + set.substr(0, 128), "has no KEY=VALUE",
                                  "write --set section.key=value"});
      return;
    }
    const std::string key = set.substr(0, equals);
    const std::string where = "--set " + key.substr(0, 128);
    const Option* option = find_option(key);
    if (option == nullptr) {
      Problem problem = unknown_key(key);
      problem.where = where;
      doubt(section_of(key));
      parsed_.problems.push_back(std::move(problem));
      return;
    }
    std::erase_if(given_, [&](const Given& given) { return given.key == key; });
    sets_data_ = sets_data_ || option->section() == "data";
    if (equals + 1 == set.size()) return unset(*option);
    Converted result = convert(*option, raw_from_text(*option, set.substr(equals + 1)));
    if (!result.code.empty()) {
      refuse(*option);
      parsed_.problems.push_back({result.code, where, result.what, result.fix});
      return;
    }
    option->set(parsed_.config, result.value);
    given_.push_back({key, where, false});
    if (option->section() == "batch") set_batch_keys_[key] = true;
  }

  /// [bacth] may have meant [batch].
  void doubt_unknown(std::string_view section) {
    std::vector<std::string_view> names;
    for (const Section& known : sections()) names.push_back(known.name);
    doubt(nearest_name(section, names));
  }

  /// The sections that have a key of this name.
  void doubt_owner(std::string_view name) {
    for (const Option& option : options()) {
      if (option.name() == name) doubt(option.section());
    }
  }

  void refuse(const Option& option) {
    refused_.push_back(std::string(option.key));
    doubt(option.section());
  }

  /// As if the file did not name the key.
  void unset(const Option& option) { option.set(parsed_.config, option.get(RunConfig{})); }

  [[nodiscard]] const Given* given(std::string_view key) const {
    const auto found = std::find_if(given_.begin(), given_.end(),
                                    [&](const Given& one) { return one.key == key; });
    return found == given_.end() ? nullptr : &*found;
  }

  /// Two batch numbers by --set leave the file's third without a say; so does a micro-batch that is
  /// found, which accumulation follows.
  void drop_third_batch_number() {
    const bool finds =
        parsed_.config.batch.finds_micro_batch && set_batch_keys_.contains("batch.micro_batch");
    if (finds && !set_batch_keys_.contains("batch.accumulation")) {
      parsed_.config.batch.accumulation.reset();
    }
    if (set_batch_keys_.size() != 2) return;
    for (const Option& option : options()) {
      const std::string key(option.key);
      if (option.section() == "batch" && !set_batch_keys_.contains(key)) {
        option.set(parsed_.config, Value{});
      }
    }
  }

  void check_readers(const Given& one) {
    const Option& option = *find_option(one.key);
    if (option.section() == "model" && given("model.config") != nullptr) return;
    const std::string_view key = option.read_when.key;
    const auto is_in = [&](const std::vector<std::string>& keys) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    if (is_in(refused_) || is_read(option, parsed_.config)) return;
    const Option& choice = *find_option(key);
    const std::string is =
        std::string(key) + " is " + to_toml_text(choice, choice.get(parsed_.config));
    const Given* chosen = given(key);
    if (one.by_file && (is_in(left_out_) || (chosen != nullptr && !chosen->by_file))) {
      // Whoever chooses anew on the command line cannot edit the file for it.
      return leave_out(one, is);
    }
    parsed_.problems.push_back({"LS-1007", one.where, one.key + " is not read: " + is,
                                "remove it, or choose " + describe_readers(option)});
  }

  /// \param why "model.family is "mlp"".
  void leave_out(const Given& one, const std::string& why) {
    unset(*find_option(one.key));
    left_out_.push_back(one.key);
    parsed_.notes.push_back(one.where + ": " + one.key + " is left out: " + why + " by --set");
  }

  /// A model that model.config describes has no other keys.
  void check_described_model() {
    const Given* described = given("model.config");
    if (described == nullptr) return;
    for (const Given& one : given_) {
      if (find_option(one.key)->section() != "model" || &one == described) continue;
      if (one.by_file && !described->by_file) {
        leave_out(one, "the model is that of model.config");
        continue;
      }
      parsed_.problems.push_back({"LS-1007", one.where,
                                  one.key + " is not read: model.config names the model",
                                  "remove one of the two; on the command line `--set "
                                  "model.config=` unsets a key"});
    }
  }

  /// Held-out data come from one of two places.
  void check_evaluation_data() {
    const Given* fraction = given("data.eval_fraction");
    const DataSection& data = parsed_.config.data;
    if (fraction == nullptr || data.eval_fraction <= 0 || data.eval.empty()) return;
    parsed_.problems.push_back(
        {"LS-1007", fraction->where,
         "data.eval_fraction is not read: data.eval names the evaluation data",
         "remove one of the two; on the command line `--set data.eval=` unsets a key"});
  }

  /// What is of use only with data to evaluate on.
  void check_evaluation_keys() {
    const auto& faulty = parsed_.faulty_sections;
    const bool is_known = std::find(faulty.begin(), faulty.end(), "data") == faulty.end();
    if (!is_known || has_evaluation(parsed_.config.data)) return;
    for (const char* key : {"run.eval_every", "data.eval_samples"}) {
      const Given* one = given(key);
      if (one == nullptr || find_option(key)->get(parsed_.config) == Value(std::int64_t{0}))
        continue;
      if (one->by_file && sets_data_) {
        leave_out(*one, "there are no data to evaluate on");
        continue;
      }
      parsed_.problems.push_back({"LS-1007", one->where,
                                  one->key + " is not read: there are no data to evaluate on",
                                  "remove it, or name some: data.eval, for text also "
                                  "data.eval_fraction, for synthetic data data.eval_samples"});
    }
  }

  std::string file_;
  ParsedConfig parsed_;
  std::vector<PlacedProblem> placed_;
  std::vector<Given> given_;
  std::vector<std::string> refused_;
  std::vector<std::string> left_out_;
  bool sets_data_ = false;  // --set names a key of [data]
  std::map<std::string, bool> set_batch_keys_;
};

}  // namespace

ParsedConfig parse_run_config(std::string_view toml, const std::string& file,
                              const std::vector<std::string>& sets) {
  Parser parser(file);
  parser.read_file(toml);
  parser.read_sets(sets);
  return parser.finish();
}

ParsedConfig parse_run_file(const std::string& file, const std::vector<std::string>& sets) {
  return parse_run_config(read_run_file(file, kLongestFile), file, sets);
}

RunConfig load_run_config(const std::string& file, const std::vector<std::string>& sets) {
  ParsedConfig parsed = parse_run_file(file, sets);
  if (!parsed.problems.empty()) throw UsageError(std::move(parsed.problems));
  return std::move(parsed.config);
}

}  // namespace lockstep::config
