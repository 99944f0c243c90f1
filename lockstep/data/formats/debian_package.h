// Which Debian package brings a data file or program that is missing.
#pragma once
#include <string>
#include <string_view>

namespace lockstep::data {

/// "apt-get install PACKAGE" for a known path or program name, else advice to check data.train and
/// data.eval.
[[nodiscard]] std::string install_hint(std::string_view path_or_program);

}  // namespace lockstep::data
