#include "lockstep/cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <ostream>

#include "lockstep/base/limits.h"
#include "lockstep/base/nearest.h"
#include "lockstep/cli/next_words.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/shell_scripts.h"
#include "lockstep/starters/remote_agent.h"

namespace lockstep::cli {
namespace {

Exit report(const Error& error, const Context& context) {
  if (context.json) {
    context.out << to_json_text(error.problems()) << std::endl;
  } else {
    context.err << to_text(error.problems()) << std::flush;
  }
  return error.exit();
}

/// Errors of ours carry their exit code; anything else is a bug of ours.
template <typename Work>
Exit guarded(const Context& context, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    return report(error, context);
  } catch (const std::exception& error) {
    if (const auto fault = limit_fault_of(error)) return report(*fault, context);
    return report(Error(Exit::bug, {{"LS-9001", "lockstep", error.what(),
                                     "this is a bug of lockstep: please report it with the command "
                                     "you ran"}}),
                  context);
  }
}

/// How many leading words name a command: "bench scaling" before "bench".
std::size_t words_of_name(const std::vector<std::string>& words) {
  if (words.size() > 1 && find_command(words[0] + " " + words[1]) != nullptr) return 2;
  return find_command(words[0]) != nullptr ? 1 : 0;
}

[[noreturn]] void unknown_command(const std::vector<std::string>& words) {
  std::vector<std::string_view> names;
  std::string group;
  for (const Command& command : commands()) {
    names.push_back(command.name);
    if (command.name.rfind(words[0] + " ", 0) == 0) {
      group += (group.empty() ? "" : ", ") + std::string(command.name.substr(words[0].size() + 1));
    }
  }
  if (!group.empty()) {
    const bool names_one = words.size() > 1 && !words[1].empty() && words[1].front() != '-';
    const std::string given = names_one ? words[0] + " " + words[1].substr(0, 128) : "";
    const std::string otherwise = (names_one ? "use one of: " : "add one of: ") + group;
    throw UsageError({{"LS-1011", "lockstep " + words[0],
                       names_one ? "unknown command " + given : "needs to know what to do",
                       names_one ? did_you_mean(given, names, otherwise) : otherwise}});
  }
  const bool flag = words[0].front() == '-';
  throw UsageError({{flag ? "LS-1012" : "LS-1011", "lockstep",
                     (flag ? "unknown flag " : "unknown command ") + words[0].substr(0, 128),
                     did_you_mean(words[0], names, "`lockstep help` lists the commands")}});
}

bool is_common_flag(const std::string& word) {
  const auto flags = common_flags();
  return std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) {
    return with_dashes(word) == flag.name || (!word.empty() && word == flag.short_name);
  });
}

/// `lockstep --json plan` as `lockstep plan --json`: flags of every command may stand before it.
std::vector<std::string> with_command_first(std::vector<std::string> words) {
  const auto command = std::find_if_not(words.begin(), words.end(), is_common_flag);
  if (command == words.end()) return words;
  // Behind both words of "bench comm".
  const std::size_t of_name = words_of_name({command, words.end()});
  std::rotate(words.begin(), command,
              command + static_cast<std::ptrdiff_t>(std::max<std::size_t>(of_name, 1)));
  return words;
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What run would find besides, as far as it can be told without the flags that are wrong.
void add_value_problems(const Command& command, const Args& args, const Context& context,
                        std::vector<Problem>& problems) {
  if (command.check_values == nullptr) return;
  for (Problem& problem : command.check_values(args, context)) {
    const bool is_known = std::find(problems.begin(), problems.end(), problem) != problems.end();
    if (!is_known) problems.push_back(std::move(problem));
  }
}

Exit run_command(const Command& command, const std::vector<std::string>& words, Context context) {
  // A wrong flag must not hide --json: its errors are printed as JSON too.
  context.json = has_word(words, "--json");
  return guarded(context, [&] {
    ParsedArgs parsed = parse_args(command, words);
    if (parsed.problems.empty() || !parsed.args.has("--help"))
      context.json = parsed.args.has("--json");
    if (parsed.args.has("--help")) {
      context.out << command_help(command) << std::flush;
      return Exit::ok;
    }
    if (command.check != nullptr) {
      for (Problem& problem : command.check(parsed.args, context)) {
        parsed.problems.push_back(std::move(problem));
      }
    }
    if (!parsed.problems.empty()) {
      add_value_problems(command, parsed.args, context, parsed.problems);
      throw UsageError(std::move(parsed.problems));
    }
    context.quiet = parsed.args.has("--quiet");
    if (parsed.args.has("--no-color")) context.color = false;
    return command.run(parsed.args, context);
  });
}

std::string variable(const Context& context, const char* name) {
  const char* value = context.get_env ? context.get_env(name) : nullptr;
  return value == nullptr ? "" : value;
}

/// The first set of these decides, as in setlocale.
bool is_utf8_locale(const Context& context) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = variable(context, name);
    if (locale.empty()) continue;
    for (const char* form : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (locale.find(form) != std::string::npos) return true;
    }
    return false;
  }
  return false;
}

}  // namespace

Exit run_program(const std::vector<std::string>& given, Context context) {
  const std::vector<std::string> words = with_command_first(given);
  if (!variable(context, "NO_COLOR").empty()) context.color = false;
  context.utf8 = is_utf8_locale(context);
  context.json = has_word(words, "--json");
  return guarded(context, [&] {
    const bool only_flags = std::all_of(words.begin(), words.end(), is_common_flag);
    if (only_flags && context.json) {  // as `lockstep help --json`
      return run_command(*find_command("help"), {"--json"}, context);
    }
    if (only_flags || words[0].empty()) {
      context.out << front_page() << std::flush;
      return Exit::ok;
    }
    if (words[0] == kNextWordsFlag) {  // a shell asks
      context.out << to_lines(next_words({words.begin() + 1, words.end()})) << std::flush;
      return Exit::ok;
    }
    if (words[0] == starters::kRemoteAgentFlag) return starters::run_remote_agent(STDIN_FILENO);
    if (words[0] == "--version") {
      const auto other = std::find_if_not(words.begin() + 1, words.end(), is_common_flag);
      if (other != words.end()) {
        throw UsageError({{"LS-1014", "lockstep --version",
                           "takes nothing beside it, and " + other->substr(0, 128) + " was given",
                           "leave one of the two out"}});
      }
      context.out << version_text(context.json) << std::endl;
      return Exit::ok;
    }
    const std::size_t count = words_of_name(words);
    if (count == 0) unknown_command(words);
    std::string name = words[0];
    if (count == 2) name += " " + words[1];
    return run_command(*find_command(name),
                       {words.begin() + static_cast<std::ptrdiff_t>(count), words.end()}, context);
  });
}

}  // namespace lockstep::cli
