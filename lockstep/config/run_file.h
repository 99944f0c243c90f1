// The bytes of a file that was named on the command line.
#pragma once
#include <cstddef>
#include <string>

namespace lockstep::config {

/// At most `most_bytes` of `file`: a regular file, a device, or a pipe that is already open (named
/// below /dev, as /dev/stdin is). \param what it is, for the message. \throws UsageError (LS-1001)
/// with the reason when there is none; a named pipe is refused, because opening it would wait for a
/// writer.
[[nodiscard]] std::string read_run_file(const std::string& file, std::size_t most_bytes,
                                        const std::string& what = "the run's TOML file");

}  // namespace lockstep::config
