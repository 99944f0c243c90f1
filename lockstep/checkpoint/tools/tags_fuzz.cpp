// Any bytes as the file of a tag: refused with BadData, or accepted and then the same after
// writing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/tools/tags.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tag = lockstep::checkpoint::parse_tag(text, "fuzz");
    const std::string written = lockstep::checkpoint::write_tag(tag);
    const auto again = lockstep::checkpoint::parse_tag(written, "fuzz");
    LOCKSTEP_CHECK(lockstep::checkpoint::write_tag(again) == written, "not the same");
    for (const auto& [name, file] : tag.files) {
      const auto inside = (std::filesystem::path("c") / name).lexically_normal();
      LOCKSTEP_CHECK(*inside.begin() == "c" && ++inside.begin() != inside.end(), "leads out");
    }
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
