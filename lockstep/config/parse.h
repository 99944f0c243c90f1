// run.toml and --set into a RunConfig. All errors are found before any is reported.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/run_config.h"

namespace lockstep::config {

struct ParsedConfig {
  RunConfig config;
  std::vector<Problem> problems;  // `where` = file:line:col, or --set key; empty when usable
  std::vector<std::string> faulty_sections;  // that a problem is in: their values are not all there
  std::vector<std::string> notes;            // what was taken otherwise than the file says
  std::vector<std::string> given;            // keys that have their value from file or --set
};

/// Parses TOML text. Wrong types, unknown keys (with the nearest name), values out of range and
/// keys that the chosen family, format, optimizer or schedule does not read are problems.
/// \param file name used in `where`.
/// \param sets "section.key=value" of each --set, applied after the file in order; "section.key="
///        unsets a key. Two batch numbers set here drop the file's third; a family, format,
///        optimizer or schedule set here drops the file's keys that it does not read, with a note.
[[nodiscard]] ParsedConfig parse_run_config(std::string_view toml, const std::string& file,
                                            const std::vector<std::string>& sets = {});

/// Reads and parses `file`. \throws UsageError when it cannot be read (LS-1001).
[[nodiscard]] ParsedConfig parse_run_file(const std::string& file,
                                          const std::vector<std::string>& sets = {});

/// The same. \throws UsageError with every problem.
[[nodiscard]] RunConfig load_run_config(const std::string& file,
                                        const std::vector<std::string>& sets = {});

/// The resolved configuration as JSON: every key with its value, sections in order.
[[nodiscard]] std::string to_json_text(const RunConfig& config);
/// The inverse, for handing a resolved configuration to a rank. \throws UsageError.
[[nodiscard]] RunConfig from_json_text(std::string_view json);
/// SHA-256 (hex) of to_json_text: what checkpoints carry.
[[nodiscard]] std::string config_hash(const RunConfig& config);

}  // namespace lockstep::config
