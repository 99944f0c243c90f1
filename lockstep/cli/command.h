// A row of the command table. Its flags table is the only source of the parser, `--help` and
// docs/cli.md.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/args.h"

namespace lockstep::cli {

/// One flag. Written with '-'; '_' is accepted too. The parser checks type, words and range, so
/// that all wrong flags are reported at once. Every command also has kCommonFlags.
struct Flag {
  std::string_view name;             // "--nproc-per-node"
  std::string_view value = {};       // "N", as help shows it; empty = a switch
  std::string_view help = {};        // one line, lower case, no full stop
  ValueType type = ValueType::text;  // of the value
  bool repeats = false;              // may stand several times; otherwise that is an error
  std::string_view words = {};       // "rank|agent": the only values allowed; empty = any
  double minimum = -kAnyNumber;      // of an integer or a number
  double maximum = kAnyNumber;
  std::string_view short_name = {};  // "-m"
  std::string_view offers = {};      // "auto|none": values that completion knows, among others
  bool last_counts = false;          // may stand several times: the last one is read
};

/// What stands without a flag name. A command has at most one row.
struct Positional {
  std::string_view name = {};  // "RUN.toml"; empty = the command takes none
  std::string_view help = {};
  int at_least = 0;
  int at_most = 1;
  bool rest = false;  // from the first one on nothing is parsed (SCRIPT args...)
};

struct Example {
  std::string_view line;  // "lockstep plan run.toml --json"
  std::string_view says;  // "the plan as one JSON document"
};

/// What a command may touch outside itself; main() fills it with the process's own.
struct Context {
  std::ostream& out;  // results; with --json one document or JSON lines, nothing else
  std::ostream& err;  // everything else
  bool out_is_terminal = false;
  bool color = false;  // after --no-color and NO_COLOR
  bool utf8 = false;   // the locale is one of UTF-8
  bool json = false;
  bool quiet = false;
  std::string program_path = {};  // of this executable; lockstep-worker stands beside it
  std::function<const char*(const char*)> get_env = {};
};

/// A command. `name` may be two words ("bench scaling"); rows with the same first word are a group.
struct Command {
  std::string_view name;
  std::string_view summary = {};      // one line, lower case, no full stop
  std::string_view description = {};  // a paragraph for --help and docs/cli.md
  std::span<const Example> examples = {};
  Positional positional = {};
  std::span<const Flag> flags = {};  // without the common ones
  std::string_view json = {};        // what --json prints: one sentence
  /// Throws lockstep::Error for what goes wrong; one handler prints it and gives the exit code.
  Exit (*run)(const Args& args, const Context& context) = nullptr;
  /// What is wrong with flags beyond their form; reported together with what the parser found.
  std::vector<Problem> (*check)(const Args& args, const Context& context) = nullptr;
  /// What run would find wrong with the values; asked only where flags are wrong already and run is
  /// not reached, so that nobody is told in two rounds.
  std::vector<Problem> (*check_values)(const Args& args, const Context& context) = nullptr;
};

/// --help, --json, --quiet, --no-color.
[[nodiscard]] std::span<const Flag> common_flags();

/// All commands in the order help lists them: cli/registry.cpp.
[[nodiscard]] std::span<const Command> commands();

/// The row of `name` ("plan", "bench scaling"), or nullptr.
[[nodiscard]] const Command* find_command(std::string_view name);

}  // namespace lockstep::cli
