// Any bytes as an index of shards: refused with BadData, or accepted and then the same after
// writing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/safetensors_index.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto index = lockstep::checkpoint::parse_safetensors_index(text, "fuzz");
    for (const auto& entry : index.entries) {
      LOCKSTEP_CHECK(entry.file < index.files.size(), "a shard that is not there");
    }
    const std::string written = lockstep::checkpoint::write_safetensors_index(index);
    const auto again = lockstep::checkpoint::parse_safetensors_index(written, "fuzz");
    LOCKSTEP_CHECK(lockstep::checkpoint::write_safetensors_index(again) == written, "not the same");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
