// Fuzz target: whatever the bytes, parse_idx returns an array of the announced shape or BadData.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/idx.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::data::MemorySource source(std::as_bytes(std::span(data, size)));
  try {
    const lockstep::data::IdxArray array = lockstep::data::parse_idx(source);
    std::int64_t elements = 1;
    for (const std::int64_t dim : array.dims) elements *= dim;
    LOCKSTEP_CHECK(elements == static_cast<std::int64_t>(array.values.size()),
                   "the values do not fill the dimensions");
    LOCKSTEP_CHECK(source.at_most_bytes() == 0, "bytes were left over");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
    return 0;
  }
  return 0;
}
