// Any bytes as what stands on a board: what is taken can be written and read again, and stays the
// same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/rendezvous/records.h"
#include "tests/fuzz/verdict.h"

namespace rendezvous = lockstep::rendezvous;

namespace {

/// Texts are cut when they are written first.
template <class Value, class Read>
void check(std::string_view bytes, const Read& read) {
  try {
    const Value written = read(bytes);
    const Value once = read(to_bytes(written));
    LOCKSTEP_CHECK(read(to_bytes(once)) == once, "it changes on its way");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check<rendezvous::Record>(bytes, rendezvous::record_from);
  check<rendezvous::JobState>(bytes, rendezvous::state_from);
  return 0;
}
