// Reads TOML text into flat entries with their places. The only file that knows the TOML library.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/convert.h"

namespace lockstep::config {

/// Line and column as the reader counts them, from 1.
struct Place {
  std::size_t line = 1;
  std::size_t column = 1;
};

/// `name` is empty for the section itself; `section` is empty for what stands outside any.
struct Entry {
  std::string section;
  std::string name;
  Raw value;
  Place place;
};

struct PlacedProblem {
  Place place;
  Problem problem;  // `where` is filled by whoever knows the file's name
};

struct TomlDocument {
  std::vector<Entry> entries;  // in the order of the text
  std::vector<PlacedProblem> problems;
};

/// Never throws for bad text. A key given twice is reported and reading goes on; so is one other
/// faulty line, when the rest can be understood without it.
[[nodiscard]] TomlDocument read_toml(std::string_view text);

}  // namespace lockstep::config
