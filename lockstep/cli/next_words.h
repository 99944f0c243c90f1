// What can stand next on a command line: the answer that the shells' completion shows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

struct NextWord {
  std::string word;  // no blank is to follow one that ends in '.' or '='
  std::string help;  // one line; may be empty
};

/// What the shell itself is to offer besides.
enum class NextFiles : std::uint8_t { none, any, toml, folders };

struct NextWords {
  std::vector<NextWord> words;  // all begin with what has been typed
  NextFiles files = NextFiles::none;
};

/// From the command and option tables alone, and from RUN.toml where the line names one: of --set
/// it then offers the keys that this run reads. Never throws for what it cannot understand.
/// \param line the words behind the program's name up to the cursor; the last one is being typed
/// and may be empty.
[[nodiscard]] NextWords next_words(const std::vector<std::string>& line);

/// For the scripts: a line for each word, with a tab before its help; last ":files", ":toml" or
/// ":folders".
[[nodiscard]] std::string to_lines(const NextWords& next);

}  // namespace lockstep::cli
