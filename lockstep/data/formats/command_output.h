// What a program prints, read without a shell and within a deadline.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

struct CommandLimits {
  std::chrono::milliseconds deadline{60'000};
  std::size_t output_bytes = std::size_t{1} << 30;
};

/// Runs `argv` (argv[0] searched in PATH; standard input empty) and returns its standard output.
/// \throws EnvironmentFault (LS-2006) when it cannot be started (naming the Debian package where
/// known), ends with another status than 0, prints too much or does not end in time; it is killed
/// then.
[[nodiscard]] std::vector<std::uint8_t> command_output(const std::vector<std::string>& argv,
                                                       const CommandLimits& limits = {});

}  // namespace lockstep::data
