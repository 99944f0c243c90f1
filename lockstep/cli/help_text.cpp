// Everything that is printed from the command table: the front page, --help, docs/cli.md.
#include "lockstep/cli/parser.h"
#include "lockstep/cli/program.h"
#include "lockstep/cli/wrap.h"
#include "lockstep/config/convert.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kHelpColumn = 30;
constexpr std::size_t kWidth = 100;

std::string two_columns(std::string left, std::string_view right) {
  left = "  " + left;
  if (left.size() + 2 > kHelpColumn) {
    left += "\n" + std::string(kHelpColumn, ' ');
  } else {
    left.resize(kHelpColumn, ' ');
  }
  return left + wrapped(right, kHelpColumn, kHelpColumn, kWidth) + "\n";
}

std::string written(const Flag& flag) {
  std::string text;
  if (!flag.short_name.empty()) text += std::string(flag.short_name) + ", ";
  text += std::string(flag.name);
  if (!flag.value.empty()) text += " " + std::string(flag.value);
  return text;
}

/// What the parser will refuse stands in the help too.
std::string flag_help(const Flag& flag) {
  std::string text(flag.help);
  const bool says_words = flag.value == flag.words || flag.type != ValueType::text;
  if (!flag.words.empty() && !says_words) text += " (" + std::string(flag.words) + ")";
  if (flag.minimum > -kAnyNumber) {
    text += "; at least " + config::number_text(flag.minimum);
  }
  if (flag.repeats) text += "; may stand several times";
  return text;
}

std::string usage(const Command& command) {
  std::string text = "lockstep " + std::string(command.name);
  const Positional& row = command.positional;
  if (!row.name.empty()) {
    const std::string name(row.name);
    text += row.at_least > 0 ? " " + name : " [" + name + "]";
    if (row.at_most > 1 || row.rest) text += " ...";
  }
  return text + " [flags]";
}

std::string examples_text(const Command& command, std::string_view indent) {
  std::string text;
  for (const Example& example : command.examples) {
    text += std::string(indent) + "# " + std::string(example.says) + "\n" + std::string(indent) +
            std::string(example.line) + "\n";
  }
  return text;
}

/// A bar would end the cell of a table.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? "\\|" : std::string(1, c);
  return safe;
}

std::string flag_row(const Flag& flag) {
  return "| `" + escaped(written(flag)) + "` | " + escaped(flag_help(flag)) + " |\n";
}

std::string command_markdown(const Command& command) {
  std::string text = "\n## lockstep " + std::string(command.name) + "\n\n" +
                     std::string(command.description) + "\n\n```sh\n" + examples_text(command, "") +
                     "```\n\nUsage: `" + usage(command) + "`\n";
  const Positional& row = command.positional;
  if (!row.name.empty() || !command.flags.empty()) text += "\n| flag | meaning |\n|---|---|\n";
  if (!row.name.empty()) {
    text += "| `" + std::string(row.name) + "` | " + std::string(row.help) + " |\n";
  }
  for (const Flag& flag : command.flags) text += flag_row(flag);
  if (!command.json.empty()) text += "\n`--json`: " + std::string(command.json) + "\n";
  return text;
}

constexpr std::string_view kExitCodes =
    "| code | meaning |\n|---|---|\n"
    "| 0 | done |\n"
    "| 1 | the work failed: a child failed or was killed, a bar was not met |\n"
    "| 2 | usage or configuration error, also a missing or bad file named on the command line |\n"
    "| 3 | the environment is at fault: network, disk, driver, missing data set, package or device "
    "|\n"
    "| 4 | bad input data: a corrupt file, not a log |\n"
    "| 5 | a peer was lost: what a surviving rank returns, never the cause |\n"
    "| 70 | a bug of lockstep |\n"
    "| 75 | stopped on request with the state saved: start it again |\n";

}  // namespace

std::string front_page() {
  std::string text =
      "lockstep trains models on many devices as if they were one.\n\n"
      "  lockstep train run.toml        train; prints the plan first and plan against measured "
      "last\n"
      "  lockstep plan run.toml         what it will need, without training\n\n"
      "Commands:\n";
  for (const Command& command : commands()) {
    text += two_columns(std::string(command.name), command.summary);
  }
  text += "\nEvery command takes:\n";
  for (const Flag& flag : common_flags()) text += two_columns(written(flag), flag_help(flag));
  text +=
      "\n`lockstep COMMAND --help` shows examples. `lockstep help NAME` explains a configuration "
      "key\n"
      "(optimizer.lr), a section (optimizer) or an error code (LS-1003).\n";
  return text;
}

std::string command_help(const Command& command) {
  std::string text = examples_text(command, "  ") + "\n" +
                     wrapped(command.description, 0, 0, kWidth) + "\n\nUsage: " + usage(command) +
                     "\n\n";
  const Positional& row = command.positional;
  if (!row.name.empty()) text += two_columns(std::string(row.name), row.help);
  for (const Flag& flag : all_flags(command)) text += two_columns(written(flag), flag_help(flag));
  return text;
}

std::string cli_markdown() {
  std::string text =
      "# The command line\n\n"
      "Written by `lockstep help --markdown cli`; a test holds it equal to the program.\n\n"
      "Flags are accepted with `-` and with `_`. Every command takes:\n\n"
      "| flag | meaning |\n|---|---|\n";
  for (const Flag& flag : common_flags()) text += flag_row(flag);
  text +=
      "\n## Exit codes\n\n" + std::string(kExitCodes) +
      "\nErrors are all found before stopping and printed as `where: error LS-nnnn: what` and a "
      "line with the fix; with `--json` as `{\"errors\":[{\"code\",\"where\",\"what\",\"fix\"}]}`."
      " `lockstep help LS-nnnn` explains one.\n";
  for (const Command& command : commands()) text += command_markdown(command);
  return text;
}

}  // namespace lockstep::cli
