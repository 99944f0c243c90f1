// One call of `lockstep`: finds the command, checks its flags, runs it, and turns errors into the
// contract's text, JSON and exit code.
#pragma once
#include <string>
#include <vector>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// \param words argv without the program's name. Never throws. Reads NO_COLOR and the locale
///        through `context`.
[[nodiscard]] Exit run_program(const std::vector<std::string>& words, Context context);

/// The front page: what `lockstep`, `lockstep --help` and `lockstep help` print.
[[nodiscard]] std::string front_page();
/// `lockstep COMMAND --help`: examples first.
[[nodiscard]] std::string command_help(const Command& command);
/// docs/cli.md.
[[nodiscard]] std::string cli_markdown();
/// {"version","libtorch","backends","git"} on one line, or the same for people.
[[nodiscard]] std::string version_text(bool json);

}  // namespace lockstep::cli
