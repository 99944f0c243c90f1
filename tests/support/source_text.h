// Files of the source tree that tests hold the code against.
#pragma once
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::test {

/// \param path below the root: "docs/validation.md". Empty where it cannot be read.
inline std::string source_text(const std::string& path) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace lockstep::test
