// Text as bytes: a file, or what a program prints (docs/formats/text.md).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// \param location a file (plain or gzip), or "!program argument..." split at spaces, run without a
/// shell.
/// \throws EnvironmentFault (LS-2001, LS-2006), BadData (LS-2005), UsageError when "!" names
/// nothing.
[[nodiscard]] std::vector<std::uint8_t> read_text(const std::string& location);

}  // namespace lockstep::data
