#include "lockstep/checkpoint/names/listed.h"

#include <algorithm>

namespace lockstep::checkpoint {

std::string listed(std::span<const std::string> items, std::string_view separator) {
  const std::size_t shown = std::min(items.size(), kMostListed);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += separator;
    text += items[i];
  }
  if (shown < items.size()) text += " and " + std::to_string(items.size() - shown) + " more";
  return text;
}

}  // namespace lockstep::checkpoint
