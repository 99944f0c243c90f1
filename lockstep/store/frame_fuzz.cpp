// Fuzz target: hostile bytes into the request parser and the table behind it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "lockstep/store/frame.h"
#include "lockstep/store/table.h"
#include "tests/fuzz/verdict.h"

namespace {

namespace store = lockstep::store;

/// Parses as many requests as there are; `piece` bytes become visible at a time.
std::size_t run(std::span<const std::uint8_t> bytes, std::size_t piece) {
  bool& accepted = lockstep::fuzz::accepted;
  accepted = false;
  bool carried_out = true;
  store::Table table;
  store::RequestParser parser;
  std::size_t requests = 0;
  std::size_t visible = 0;
  while (true) {
    const auto status = parser.advance(bytes.first(visible));
    if (status == store::ParseStatus::refused) return requests;
    if (status == store::ParseStatus::need_more) {
      accepted = carried_out && bytes.empty();
      if (visible == bytes.size()) return requests;
      visible = std::min(bytes.size(), visible + piece);
      continue;
    }
    auto parsed = parser.take();
    if (parsed.bytes == 0 || parsed.bytes > visible) std::abort();
    bytes = bytes.subspan(parsed.bytes);
    visible -= parsed.bytes;
    const store::Request& request = parsed.request;
    const bool is_hello =
        request.query == store::Query::validate && request.number == store::kMagic;
    if (requests++ == 0 && is_hello) continue;  // the server answers it
    const auto from = store::ConnectionId{requests % 3};
    if (table.apply(from, std::move(parsed.request)).refusal.empty()) continue;
    carried_out = false;
    table.forget(from);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(data, size);
  if (run(bytes, size + 1) != run(bytes, 1)) std::abort();  // how bytes arrive must not matter
  return 0;
}
