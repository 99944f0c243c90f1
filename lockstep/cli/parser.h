// argv against a command's table. All wrong flags are found before any is reported.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/args.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

struct ParsedArgs {
  Args args;
  std::vector<Problem> problems;  // LS-1012, LS-1013, LS-1014
};

/// \param words what stands behind the command's name.
[[nodiscard]] ParsedArgs parse_args(const Command& command, const std::vector<std::string>& words);

/// The command's own flags, then the common ones.
[[nodiscard]] std::vector<Flag> all_flags(const Command& command);

/// What `args` were parsed from, without the flags in `leave_out`: words, then flags in the order
/// of the table.
[[nodiscard]] std::vector<std::string> words_of(const Command& command, const Args& args,
                                                std::span<const std::string_view> leave_out);

/// "--run_dir=x" as "--run-dir=x".
[[nodiscard]] std::string with_dashes(std::string word);

}  // namespace lockstep::cli
