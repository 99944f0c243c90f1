#include "lockstep/cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"
#include "lockstep/config/convert.h"

namespace lockstep::cli {
namespace {

constexpr auto kCommonFlags = std::to_array<Flag>({
    {.name = "--help", .help = "show examples and flags", .short_name = "-h"},
    {.name = "--json", .help = "one JSON document, or JSON lines, on standard output"},
    {.name = "--quiet", .help = "only results and errors", .short_name = "-q"},
    {.name = "--no-color", .help = "no colours (also by NO_COLOR)"},
});

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> list;
  while (!words.empty()) {
    const std::size_t bar = words.find('|');
    list.push_back(words.substr(0, bar));
    words.remove_prefix(bar == std::string_view::npos ? words.size() : bar + 1);
  }
  return list;
}

class Parser {
 public:
  explicit Parser(const Command& command) : command_(command), flags_(all_flags(command)) {}

  ParsedArgs parse(const std::vector<std::string>& words) {
    CLI::App app;
    declare(app);
    std::vector<std::string> reversed = command_.positional.rest ? cut_rest(words) : words;
    const auto end = std::find(reversed.begin(), reversed.end(), "--");
    std::transform(reversed.begin(), end, reversed.begin(), with_dashes);
    std::reverse(reversed.begin(), reversed.end());  // the order CLI11 pops them in
    app.parse(reversed);
    Args::Values values;
    for (const Flag& flag : flags_) values[std::string(flag.name)] = values_of(app, flag);
    std::vector<std::string> free_words = free_words_of(app);
    free_words.insert(free_words.end(), rest_.begin(), rest_.end());
    check_count(free_words.size());
    return {Args(std::move(values), std::move(free_words)), std::move(problems_)};
  }

 private:
  void refuse(const char* code, std::string where, std::string what, std::string fix) {
    problems_.push_back({code, std::move(where), std::move(what), std::move(fix)});
  }

  [[nodiscard]] std::string see_help() const {
    return "`lockstep " + std::string(command_.name) + " --help` lists the flags";
  }

  void declare(CLI::App& app) const {
    app.set_help_flag();
    app.allow_extras();
    for (const Flag& flag : flags_) {
      std::string name(flag.name);
      if (!flag.short_name.empty()) name += "," + std::string(flag.short_name);
      if (flag.value.empty()) {
        app.add_flag(name)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      } else {
        // A missing value must not end the parse: it is reported with all the others.
        app.add_option(name)->expected(0, 1)->allow_extra_args(false)->multi_option_policy(
            CLI::MultiOptionPolicy::TakeAll);
      }
    }
  }

  const Flag* find(std::string_view word) const {
    const auto row = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& flag) {
      return flag.name == word || (!flag.short_name.empty() && flag.short_name == word);
    });
    return row == flags_.end() ? nullptr : &*row;
  }

  /// Keeps the words up to the first that is neither a flag nor a flag's value; the others are the
  /// rest.
  std::vector<std::string> cut_rest(std::vector<std::string> words) {
    std::size_t i = 0;
    for (; i < words.size() && words[i].rfind('-', 0) == 0 && words[i] != "--"; ++i) {
      const std::string word = with_dashes(words[i]);
      const Flag* flag = find(word);
      // The value of a misspelt flag is not where the rest begins.
      if (flag == nullptr && word.find('=') == std::string::npos) flag = find(nearest_flag(word));
      if (flag != nullptr && !flag->value.empty()) ++i;
    }
    i = std::min(i, words.size());
    const std::size_t skip = i < words.size() && words[i] == "--" ? 1 : 0;
    rest_.assign(words.begin() + static_cast<std::ptrdiff_t>(i + skip), words.end());
    words.resize(i);
    return words;
  }

  std::vector<std::string> values_of(const CLI::App& app, const Flag& flag) {
    const CLI::Option* option = app.get_option(std::string(flag.name));
    const std::string name(flag.name);
    const std::vector<std::string>& values = option->results();
    if (flag.value.empty()) {
      const auto given = std::find_if(values.begin(), values.end(),
                                      [](const std::string& value) { return value != "true"; });
      if (given != values.end())
        refuse("LS-1013", name, "takes no value", "write " + name + " alone");
      return std::vector<std::string>(std::min<std::size_t>(option->count(), 1));
    }
    if (values.size() > 1 && !flag.repeats && !flag.last_counts) {
      refuse("LS-1013", name, "stands " + std::to_string(values.size()) + " times", "keep one");
    }
    std::vector<std::string> good;
    for (const std::string& value : values) {
      if (check_value(flag, value)) good.push_back(value);
    }
    return good;
  }

  bool check_value(const Flag& flag, const std::string& value) {
    const std::string name(flag.name);
    if (value.empty()) {
      refuse("LS-1013", name, "has no value", "write " + name + " " + std::string(flag.value));
      return false;
    }
    const std::vector<std::string_view> words = split(flag.words);
    if (std::find(words.begin(), words.end(), value) != words.end()) return true;
    if (flag.type != ValueType::text) return check_number(flag, value);
    if (words.empty()) return true;
    refuse("LS-1013", name, "cannot be " + value.substr(0, 64), "use " + std::string(flag.words));
    return false;
  }

  bool check_number(const Flag& flag, const std::string& value) {
    const std::string name(flag.name);
    std::int64_t whole = 0;
    double real = 0;
    const bool is_integer = flag.type == ValueType::integer;
    bool good = is_integer ? config::read_integer(value, whole) : config::read_number(value, real);
    if (is_integer) real = static_cast<double>(whole);
    good = good && real >= flag.minimum && real <= flag.maximum;
    if (good) return true;
    std::string fix = is_integer ? "use a whole number" : "use a number";
    const auto limit = [&](double number) {
      return is_integer ? format_count(static_cast<std::int64_t>(number))
                        : config::number_text(number);
    };
    if (flag.minimum > -kAnyNumber) fix += " from " + limit(flag.minimum);
    if (flag.maximum < kAnyNumber) fix += " to " + limit(flag.maximum);
    refuse("LS-1013", name, "cannot be " + value.substr(0, 64), fix);
    return false;
  }

  std::vector<std::string> free_words_of(const CLI::App& app) {
    std::vector<std::string> free_words;
    bool only_words = false;
    for (const std::string& word : app.remaining()) {
      if (word == "--" && !only_words) {
        only_words = true;
      } else if (word.size() > 1 && word.front() == '-' && !only_words) {
        unknown_flag(word.substr(0, word.find('=')));
      } else {
        free_words.push_back(word);
      }
    }
    return free_words;
  }

  [[nodiscard]] std::vector<std::string_view> flag_names() const {
    std::vector<std::string_view> names;
    for (const Flag& flag : flags_) names.push_back(flag.name);
    return names;
  }

  [[nodiscard]] std::string nearest_flag(const std::string& word) const {
    return nearest_name(word, flag_names());
  }

  void unknown_flag(const std::string& word) {
    has_unknown_flag_ = true;
    refuse("LS-1012", word.substr(0, 128), "unknown flag of " + std::string(command_.name),
           did_you_mean(word, flag_names(), see_help()));
  }

  void check_count(std::size_t count) {
    const Positional& row = command_.positional;
    const auto most = row.name.empty() ? 0U : static_cast<std::size_t>(row.at_most);
    const std::string where = "lockstep " + std::string(command_.name);
    // What follows an unknown flag may be its value, and no argument of the command.
    if (count > most && has_unknown_flag_) return;
    if (count < static_cast<std::size_t>(row.at_least)) {
      refuse("LS-1014", where, std::string(row.name) + " is missing", see_help());
    } else if (count > most && !row.rest) {
      refuse("LS-1014", where,
             "takes " +
                 (most == 0 ? std::string("no argument") : "at most " + std::to_string(most)) +
                 ", not " + std::to_string(count),
             see_help());
    }
  }

  const Command& command_;
  std::vector<Flag> flags_;
  std::vector<std::string> rest_;
  std::vector<Problem> problems_;
  bool has_unknown_flag_ = false;
};

}  // namespace

std::string with_dashes(std::string word) {
  if (word.rfind("--", 0) != 0) return word;
  const auto end =
      word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
  std::replace(word.begin(), end, '_', '-');
  return word;
}

std::span<const Flag> common_flags() { return kCommonFlags; }

std::vector<Flag> all_flags(const Command& command) {
  std::vector<Flag> flags(command.flags.begin(), command.flags.end());
  flags.insert(flags.end(), kCommonFlags.begin(), kCommonFlags.end());
  return flags;
}

ParsedArgs parse_args(const Command& command, const std::vector<std::string>& words) {
  return Parser(command).parse(words);
}

std::vector<std::string> words_of(const Command& command, const Args& args,
                                  std::span<const std::string_view> leave_out) {
  std::vector<std::string> words = args.words();
  for (const Flag& flag : all_flags(command)) {
    if (std::find(leave_out.begin(), leave_out.end(), flag.name) != leave_out.end()) continue;
    for (const std::string& value : args.all(flag.name)) {
      words.emplace_back(flag.name);
      if (!flag.value.empty()) words.push_back(value);
    }
  }
  return words;
}

}  // namespace lockstep::cli
