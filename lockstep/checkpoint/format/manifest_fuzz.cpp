// Any bytes as a manifest: refused with BadData, or accepted and then the same after writing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto manifest = lockstep::checkpoint::parse_manifest_unsummed(text, "fuzz");
    const std::string written = lockstep::checkpoint::write_manifest(manifest);
    const auto again = lockstep::checkpoint::parse_manifest(written, "fuzz");
    LOCKSTEP_CHECK(lockstep::checkpoint::write_manifest(again) == written, "not the same");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
