// What makes the shells ask lockstep for completion (next_words.h).
#pragma once
#include <span>
#include <string_view>

namespace lockstep::cli {

struct ShellScript {
  std::string_view shell;  // "bash"
  std::string_view text;   // to be sourced, or put where the shell looks for it
};

[[nodiscard]] std::span<const ShellScript> shell_scripts();

/// The flag that the scripts call lockstep with, before the words of the line.
inline constexpr std::string_view kNextWordsFlag = "--next-words";

}  // namespace lockstep::cli
