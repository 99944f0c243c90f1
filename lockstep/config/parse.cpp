#include "lockstep/config/parse.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "lockstep/base/nearest.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/registry.h"
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

/// Collects values and problems of the file, then of --set, then checks what they mean together.
class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  void read_file(std::string_view toml) {
    TomlDocument document = read_toml(toml);
    for (PlacedProblem& placed : document.problems) add(placed.place, std::move(placed.problem));
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
    for (const auto& [key, where] : given_) check_readers(key, where);
    return std::move(parsed_);
  }

 private:
  void add(const Place& place, Problem problem) { placed_.push_back({place, std::move(problem)}); }

  void read_entry(const Entry& entry) {
    if (entry.section.empty()) return add(entry.place, outside_sections(entry.name));
    if (!is_section(entry.section)) {
      if (entry.name.empty()) add(entry.place, unknown_section(entry.section));
      return;
    }
    if (entry.name.empty()) return;
    const std::string key = entry.section + "." + entry.name;
    const Option* option = find_option(key);
    if (option == nullptr) return add(entry.place, unknown_key(key));
    Converted result = convert(*option, entry.value);
    if (!result.code.empty()) {
      refused_.push_back(key);
      return add(entry.place, {result.code, "", result.what, result.fix});
    }
    option->set(parsed_.config, result.value);
    given_.emplace_back(key, at(file_, entry.place));
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
      parsed_.problems.push_back(std::move(problem));
      return;
    }
    Converted result = convert(*option, raw_from_text(*option, set.substr(equals + 1)));
    if (!result.code.empty()) {
      refused_.push_back(key);
      parsed_.problems.push_back({result.code, where, result.what, result.fix});
      return;
    }
    option->set(parsed_.config, result.value);
    std::erase_if(given_, [&](const auto& given) { return given.first == key; });
    given_.emplace_back(key, where);
    if (option->section() == "batch") set_batch_keys_[key] = true;
  }

  /// Two batch numbers by --set leave the file's third without a say.
  void drop_third_batch_number() {
    if (set_batch_keys_.size() != 2) return;
    for (const Option& option : options()) {
      const std::string key(option.key);
      if (option.section() == "batch" && !set_batch_keys_.contains(key)) {
        option.set(parsed_.config, Value{});
      }
    }
  }

  void check_readers(const std::string& key, const std::string& where) {
    const Option& option = *find_option(key);
    if (option.read_when.key.empty()) return;
    const Option& choice = *find_option(option.read_when.key);
    const bool choice_unknown =
        std::find(refused_.begin(), refused_.end(), choice.key) != refused_.end();
    const std::string_view word = word_of(choice, parsed_.config);
    const auto& words = option.read_when.words;
    if (choice_unknown || std::find(words.begin(), words.end(), word) != words.end()) return;
    parsed_.problems.push_back(
        {"LS-1007", where,
         key + " is not read: " + std::string(choice.key) + " is \"" + std::string(word) + "\"",
         "remove it, or choose " + describe_readers(option)});
  }

  std::string file_;
  ParsedConfig parsed_;
  std::vector<PlacedProblem> placed_;
  std::vector<std::pair<std::string, std::string>> given_;  // key, where
  std::vector<std::string> refused_;
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

RunConfig load_run_config(const std::string& file, const std::vector<std::string>& sets) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kLongestFile, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad()) {
    throw UsageError({{"LS-1001", file, "the run's TOML file cannot be read",
                       "check the path; it is taken from the folder this command runs in"}});
  }
  ParsedConfig parsed = parse_run_config(text, file, sets);
  if (!parsed.problems.empty()) throw UsageError(std::move(parsed.problems));
  return std::move(parsed.config);
}

}  // namespace lockstep::config
