#include "lockstep/cli/next_words.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/problem_codes.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"

namespace lockstep::cli {
namespace {

using Words = std::vector<std::string>;

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_flag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

/// Collects the words that begin with what has been typed.
class Offer {
 public:
  explicit Offer(std::string typed) : typed_(std::move(typed)) {}

  void add(std::string word, std::string_view help = "") {
    if (word.starts_with(typed_)) next_.words.push_back({std::move(word), std::string(help)});
  }
  void add_files(NextFiles files) { next_.files = files; }
  [[nodiscard]] const std::string& typed() const { return typed_; }
  [[nodiscard]] NextWords take() { return std::move(next_); }

 private:
  std::string typed_;
  NextWords next_;
};

const Flag* find_flag(const std::vector<Flag>& flags, const std::string& word) {
  const std::string name = with_dashes(word.substr(0, word.find('=')));
  const auto row = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) {
    return flag.name == name || (!flag.short_name.empty() && flag.short_name == name);
  });
  return row == flags.end() ? nullptr : &*row;
}

/// The configuration that the line has chosen so far; nothing where it names no file to be read.
std::optional<config::RunConfig> config_of(const Words& words, const Words& sets) {
  std::error_code missing;
  if (words.empty() || !std::filesystem::is_regular_file(words.front(), missing)) return {};
  try {
    return config::parse_run_file(words.front(), sets).config;
  } catch (const Error&) {
    return {};
  }
}

bool is_read(const config::Option& option, const std::optional<config::RunConfig>& config) {
  return !config || config::is_read(option, *config);
}

bool names_a_file(const config::Option& option) {
  return option.section() == "data" && option.type == config::OptionType::text;
}

void add_values(const config::Option& option, const std::string& before, Offer& offer) {
  for (const std::string_view word : option.words) offer.add(before + std::string(word));
  if (option.type == config::OptionType::boolean) {
    for (const char* word : {"true", "false"}) offer.add(before + word);
  }
  if (names_a_file(option)) offer.add_files(NextFiles::any);
  if (option.key == "checkpoint.dir") offer.add_files(NextFiles::folders);
}

/// "optimizer.", then "optimizer.name=", then "optimizer.name=adamw". \param before stands in front
/// of it in the same word.
void add_settings(const std::string& before, const std::optional<config::RunConfig>& config,
                  Offer& offer) {
  const std::string typed = offer.typed().substr(before.size());
  const std::size_t equals = typed.find('=');
  if (equals != std::string::npos) {
    const config::Option* option = config::find_option(typed.substr(0, equals));
    if (option != nullptr) add_values(*option, before + typed.substr(0, equals + 1), offer);
  } else if (typed.find('.') == std::string::npos) {
    for (const config::Section& section : config::sections()) {
      offer.add(before + std::string(section.name) + ".", section.help);
    }
  } else {
    for (const config::Option& option : config::options()) {
      if (!is_read(option, config)) continue;
      offer.add(before + std::string(option.key) + "=", option.help);
    }
  }
}

/// The first words of all commands: "train", "bench".
void add_commands(Offer& offer) {
  std::map<std::string_view, std::string> groups;  // "comm, scaling"
  for (const Command& command : commands()) {
    const std::vector<std::string_view> words = parts_of(command.name, ' ');
    if (words.size() == 1) continue;
    std::string& members = groups[words[0]];
    members += (members.empty() ? "" : ", ") + std::string(words[1]);
  }
  for (const Command& command : commands()) {
    const std::string first(command.name.substr(0, command.name.find(' ')));
    if (first == command.name) {
      offer.add(first, command.summary);
    } else if (auto group = groups.extract(first)) {
      offer.add(first, group.mapped());
    }
  }
}

/// The second words of a group: "comm" of "bench comm".
void add_commands_of(const std::string& group, Offer& offer) {
  for (const Command& command : commands()) {
    if (!command.name.starts_with(group + " ")) continue;
    offer.add(std::string(command.name.substr(group.size() + 1)), command.summary);
  }
}

void add_help_names(Offer& offer) {
  add_commands(offer);
  for (const config::Section& section : config::sections()) {
    offer.add(std::string(section.name), section.help);
  }
  offer.add("errors", "all error codes");
  if (offer.typed().empty()) return;  // keys and codes fill screens
  for (const config::Option& option : config::options()) {
    offer.add(std::string(option.key), option.help);
  }
  for (const ProblemCode& code : problem_codes()) offer.add(std::string(code.code), code.title);
}

/// One command's words behind its name.
class CommandLine {
 public:
  CommandLine(const Command& command, std::span<const std::string> before)
      : command_(command), flags_(all_flags(command)) {
    for (const std::string& word : before) read(word);
  }

  void offer_next(Offer& offer) const {
    const std::string& typed = offer.typed();
    if (awaited_ != nullptr) return add_flag_values(*awaited_, "", offer);
    if (only_words_ || is_rest() || !typed.starts_with("-")) return add_words(offer);
    const Flag* flag = typed.find('=') == std::string::npos ? nullptr : find_flag(flags_, typed);
    if (flag == nullptr) return add_flags(offer);
    add_flag_values(*flag, typed.substr(0, typed.find('=') + 1), offer);
  }

 private:
  void read(const std::string& word) {
    if (awaited_ != nullptr) {
      take_value(*std::exchange(awaited_, nullptr), word);
    } else if (only_words_ || !is_flag(word) || is_rest()) {
      words_.push_back(word);
    } else if (word == "--") {
      only_words_ = true;
    } else if (const Flag* flag = find_flag(flags_, word)) {
      given_.insert(flag->name);
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos) take_value(*flag, word.substr(equals + 1));
      if (equals == std::string::npos && !flag->value.empty()) awaited_ = flag;
    }
  }

  void take_value(const Flag& flag, const std::string& value) {
    if (flag.name == kSetFlag.name) sets_.push_back(value);
  }

  /// The words of another program begin.
  [[nodiscard]] bool is_rest() const { return command_.positional.rest && !words_.empty(); }

  /// Written with '_' where that has been typed.
  void add_flags(Offer& offer) const {
    const bool underlined = offer.typed().find('_') != std::string::npos;
    for (const Flag& flag : flags_) {
      if (given_.contains(flag.name) && !flag.repeats) continue;
      std::string name(flag.name);
      if (underlined) std::replace(name.begin() + 2, name.end(), '-', '_');
      offer.add(std::move(name), flag.help);
    }
  }

  void add_flag_values(const Flag& flag, const std::string& before, Offer& offer) const {
    if (flag.value == kSetFlag.value) {
      return add_settings(before, config_of(words_, sets_), offer);
    }
    std::string kept = before;  // of a list: what stands before the last comma
    if (flag.value.ends_with(",...")) {
      const std::size_t comma = offer.typed().rfind(',');
      if (comma != std::string::npos) kept = offer.typed().substr(0, comma + 1);
    }
    for (const std::string_view list : {flag.words, flag.offers}) {
      for (const std::string_view word : parts_of(list, '|')) offer.add(kept + std::string(word));
    }
    if (flag.value == "KEY") {
      for (const config::Option& option : config::options()) {
        offer.add(std::string(option.key), option.help);
      }
    }
    if (flag.value == "DIR" || flag.name == "--resume") offer.add_files(NextFiles::folders);
    if (flag.value == "FILE") offer.add_files(NextFiles::any);
  }

  void add_words(Offer& offer) const {
    const Positional& row = command_.positional;
    if (row.rest) return offer.add_files(NextFiles::any);
    if (row.name.empty() || std::cmp_greater_equal(words_.size(), row.at_most)) {
      if (!only_words_) add_flags(offer);
    } else if (row.name.ends_with(".toml")) {
      offer.add_files(NextFiles::toml);
    } else if (row.name.ends_with("DIR")) {
      offer.add_files(NextFiles::folders);
    } else if (command_.name.starts_with("ckpt ") && row.name.find('|') == std::string::npos) {
      offer.add_files(NextFiles::any);
    } else if (command_.name == "help") {
      words_.empty() ? add_help_names(offer) : add_commands_of(words_.front(), offer);
    } else {
      for (const std::string_view word : parts_of(row.name, '|')) offer.add(std::string(word));
    }
  }

  const Command& command_;
  std::vector<Flag> flags_;
  std::set<std::string_view> given_;
  Words words_;                    // without a flag
  Words sets_;                     // values of --set
  const Flag* awaited_ = nullptr;  // whose value comes next
  bool only_words_ = false;        // "--" has passed
};

}  // namespace

NextWords next_words(const std::vector<std::string>& line) {
  if (line.empty()) return {};
  Offer offer(line.back());
  const std::span<const std::string> before(line.data(), line.size() - 1);
  const auto name = std::find_if_not(before.begin(), before.end(), is_flag);
  const auto count = static_cast<std::size_t>(before.end() - name);
  const std::string first = count > 0 ? *name : "";
  const Command* two = count > 1 ? find_command(first + " " + name[1]) : nullptr;
  if (two != nullptr) {
    CommandLine(*two, {name + 2, before.end()}).offer_next(offer);
  } else if (const Command* one = find_command(first)) {
    CommandLine(*one, {name + 1, before.end()}).offer_next(offer);
  } else if (count == 1) {
    add_commands_of(first, offer);
  } else if (count == 0 && offer.typed().starts_with("-")) {
    for (const Flag& flag : common_flags()) offer.add(std::string(flag.name), flag.help);
    offer.add("--version", "of this program and its libraries");
  } else if (count == 0) {
    add_commands(offer);
  }
  return offer.take();
}

std::string to_lines(const NextWords& next) {
  std::string lines;
  for (const NextWord& word : next.words) {
    lines += word.word + (word.help.empty() ? "" : "\t" + word.help) + "\n";
  }
  if (next.files == NextFiles::any) lines += ":files\n";
  if (next.files == NextFiles::toml) lines += ":toml\n";
  if (next.files == NextFiles::folders) lines += ":folders\n";
  return lines;
}

}  // namespace lockstep::cli
