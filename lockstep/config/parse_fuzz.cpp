// Any bytes as a TOML file, a --set and a JSON document: problems or a configuration that survives
// a round trip, never a crash.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace config = lockstep::config;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  const config::ParsedConfig parsed =
      config::parse_run_config(text, "fuzz.toml", {std::string(text.substr(0, 200))});
  LOCKSTEP_CHECK(parsed.problems.empty() || !parsed.problems.front().what.empty(),
                 "a problem without a sentence");
  const std::string json = config::to_json_text(parsed.config);
  LOCKSTEP_CHECK(config::to_json_text(config::from_json_text(json)) == json,
                 "a configuration changed on its way through JSON");
  // What --set says has problems of its own.
  lockstep::fuzz::accepted =
      std::none_of(parsed.problems.begin(), parsed.problems.end(),
                   [](const auto& problem) { return problem.where.starts_with("fuzz.toml"); });
  try {
    (void)config::from_json_text(text);
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::UsageError&) {  // most bytes are not a configuration
  }
  return 0;
}
