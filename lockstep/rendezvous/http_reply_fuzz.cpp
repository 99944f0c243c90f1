// Fuzz target: any bytes as the answer of an HTTP server, whole and in pieces. The first byte is
// the length of the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/rendezvous/http_reply.h"
#include "tests/fuzz/verdict.h"

namespace {

using lockstep::rendezvous::HttpReply;

std::string read(std::string_view bytes, std::size_t piece) {
  HttpReply reply;
  auto took = HttpReply::Took::need_more;
  while (!bytes.empty() && took != HttpReply::Took::refused) {
    const std::size_t count = std::min(piece, bytes.size());
    took = reply.add(bytes.substr(0, count));
    bytes.remove_prefix(count);
  }
  // An answer that is refused has no body: how much of it was read is nobody's business.
  if (took == HttpReply::Took::refused) return "refused";
  lockstep::fuzz::accepted = took == HttpReply::Took::complete;
  return std::to_string(static_cast<int>(took)) + std::to_string(reply.status()) + reply.body();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (read(bytes, 1U + data[0]) != read(bytes, size)) std::abort();
  return 0;
}
