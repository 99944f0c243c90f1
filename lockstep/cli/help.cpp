// lockstep help: commands, configuration keys, error codes, and the generated documents.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/nearest.h"
#include "lockstep/base/problem_codes.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/program.h"
#include "lockstep/config/registry.h"
#include "lockstep/planner/advice.h"

namespace lockstep::cli {
namespace {

constexpr auto kFlags = std::to_array<Flag>({
    {.name = "--markdown",
     .value = "config|cli|choosing",
     .help = "print docs/config.md, docs/cli.md or docs/guides/choosing.md",
     .words = "config|cli|choosing"},
    {.name = "--schema", .help = "print the JSON Schema of RUN.toml, for editors"},
});

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep help optimizer.lr", "explain a configuration key"},
    {"lockstep help optimizer", "list the keys of a section"},
    {"lockstep help LS-1003", "explain an error code; `lockstep help errors` lists all"},
    {"lockstep help plan", "examples and flags of a command"},
    {"lockstep help --schema > run.schema.json",
     "for editors; run.toml then begins with `#:schema ./run.schema.json`"},
});

std::string section_text(const config::Section& section) {
  std::string text = "[" + std::string(section.name) + "] " + std::string(section.help) + "\n\n";
  for (const config::Option& option : config::options()) {
    if (option.section() != section.name) continue;
    std::string key(option.key);
    key.resize(std::max<std::size_t>(key.size() + 2, 30), ' ');
    text += "  " + key + std::string(option.help) + "\n";
  }
  return text;
}

/// A key by its full name, or by its short one when only one section has it.
const config::Option* find_key(std::string_view name) {
  if (const config::Option* option = config::find_option(name)) return option;
  const config::Option* found = nullptr;
  for (const config::Option& option : config::options()) {
    if (option.name() != name) continue;
    if (found != nullptr) return nullptr;
    found = &option;
  }
  return found;
}

/// "  comm                         time and bandwidth of ..." for each command of a group; empty
/// when `name` is none.
std::string group_text(std::string_view name) {
  std::string text;
  for (const Command& command : commands()) {
    if (!command.name.starts_with(std::string(name) + " ")) continue;
    std::string row = "  lockstep " + std::string(command.name);
    row.resize(std::max<std::size_t>(row.size() + 2, 30), ' ');
    text += row + std::string(command.summary) + "\n";
  }
  if (text.empty()) return "";
  return "Commands of lockstep " + std::string(name) + ":\n" + text +
         "\n`lockstep COMMAND --help` shows examples.\n";
}

std::string all_codes_text() {
  std::string text;
  for (const ProblemCode& code : problem_codes()) {
    text += std::string(code.code) + "  " + std::string(code.title) + "\n";
  }
  return text + "\n`lockstep help CODE` explains one.\n";
}

bool is_code(std::string_view name) {
  return name.size() > 3 && (name[0] == 'L' || name[0] == 'l') &&
         (name[1] == 'S' || name[1] == 's') && name[2] == '-';
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// "LS-1007 and LS-1009": the codes below and above one that does not exist.
std::string codes_around(const std::string& code) {
  std::string below;
  std::string above;
  for (const ProblemCode& known : problem_codes()) {  // ascending
    if (known.code < code) below = known.code;
    if (known.code > code && above.empty()) above = known.code;
  }
  return below.empty() || above.empty() ? below + above : below + " and " + above;
}

std::string code_text(const ProblemCode& code) {
  return std::string(code.code) + ": " + std::string(code.title) + "\n\n" +
         std::string(code.explain) + "\n";
}

[[noreturn]] void nothing_known(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  for (const config::Section& section : config::sections()) names.push_back(section.name);
  for (const config::Option& option : config::options()) names.push_back(option.name());
  for (const config::Option& option : config::options()) names.push_back(option.key);
  if (is_code(name)) {
    throw UsageError({{"LS-1018", "lockstep help", "there is no code " + name.substr(0, 128),
                       "the nearest: " + codes_around(in_capitals(name)) +
                           "; `lockstep help errors` lists all"}});
  }
  throw UsageError(
      {{"LS-1018", "lockstep help", "nothing is known by the name " + name.substr(0, 128),
        did_you_mean(name, names, "`lockstep help` lists the commands")}});
}

std::string text_about(const std::string& name) {
  if (const Command* command = find_command(name)) return command_help(*command);
  if (const std::string group = group_text(name); !group.empty()) return group;
  if (name == "errors") return all_codes_text();
  if (const ProblemCode* code = find_problem_code(is_code(name) ? in_capitals(name) : name)) {
    return code_text(*code);
  }
  for (const config::Section& section : config::sections()) {
    if (section.name == name) return section_text(section);
  }
  if (const config::Option* option = find_key(name)) return config::explain_option(*option);
  nothing_known(name);
}

/// A document is whole: nothing else can be asked for beside it.
void check_document(const Args& args, const std::string& name) {
  std::vector<Problem> problems;
  const std::string where = "lockstep help";
  for (const char* flag : {"--schema", "--markdown"}) {
    if (!args.has(flag) || name.empty()) continue;
    problems.push_back(
        {"LS-1014", where,
         std::string(flag) + " takes no NAME, and " + name.substr(0, 128) + " was given",
         "leave one of the two out"});
  }
  if (args.has("--schema") && args.has("--markdown")) {
    problems.push_back(
        {"LS-1014", where, "--schema and --markdown print a document each", "keep one of the two"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
}

/// \param name as --markdown takes it.
std::string document(const std::string& name) {
  if (name == "choosing") return planner::choosing_markdown();
  return name == "cli" ? cli_markdown() : config::config_markdown();
}

Exit run(const Args& args, const Context& context) {
  std::string name;
  for (const std::string& word : args.words()) name += (name.empty() ? "" : " ") + word;
  check_document(args, name);
  std::string text = name.empty() ? front_page() : "";
  if (args.has("--markdown")) {
    text = document(args.text("--markdown"));
  } else if (args.has("--schema")) {
    text = config::json_schema();
  } else if (!name.empty()) {
    text = text_about(name);
  }
  if (context.json) {
    context.out << nlohmann::ordered_json{{"name", name}, {"text", text}}.dump() << std::endl;
  } else {
    context.out << text << std::flush;
  }
  return Exit::ok;
}

}  // namespace

Command help_command() {
  return {.name = "help",
          .summary = "explain a command, a configuration key or an error code",
          .description = "Without a name it lists the commands.",
          .examples = kExamples,
          .positional = {.name = "NAME",
                         .help = "command, section, section.key, LS-nnnn or errors",
                         .at_least = 0,
                         .at_most = 2},
          .flags = kFlags,
          .json = "name and text.",
          .run = run};
}

}  // namespace lockstep::cli
