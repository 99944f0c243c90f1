// Any bytes as what a launcher is told on its standard input: an order that survives a round trip,
// or none.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/starters/agent_order.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace starters = lockstep::starters;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  const starters::ReadOrder read = starters::read_order(text);
  if (read.state != starters::OrderState::complete) return 0;
  LOCKSTEP_CHECK(read.used_bytes <= count && !read.order.command.empty(), "more than there was");
  const std::string again = starters::to_bytes(read.order);
  LOCKSTEP_CHECK(starters::read_order(again).order == read.order, "an order changed on its way");
  lockstep::fuzz::accepted = true;
  return 0;
}
