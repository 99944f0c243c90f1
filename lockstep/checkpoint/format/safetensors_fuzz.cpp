// Any bytes as a safetensors file: accepted or refused with BadData, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');  // the JSON; after it as many data bytes
  try {
    const auto header = lockstep::checkpoint::parse_safetensors_header(
        text.substr(0, end), end == text.npos ? 0 : size - end - 1, "fuzz");
    std::uint64_t covered = 0;
    for (const auto& tensor : header.tensors) {
      LOCKSTEP_CHECK(tensor.begin == covered && tensor.end >= covered, "gap accepted");
      covered = tensor.end;
    }
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
