#include "lockstep/checkpoint/format/damaged.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

void throw_damaged(const std::string& where, const std::string& what) {
  throw BadData({"LS-5004", where, shortened(what),
                 "restore the file from a copy, or resume from an older checkpoint"});
}

std::string shortened(std::string text) {
  constexpr std::size_t kMostBytes = 2000;
  if (text.size() <= kMostBytes) return text;
  std::size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace lockstep::checkpoint
