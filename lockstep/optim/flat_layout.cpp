#include "lockstep/optim/flat_layout.h"

#include <cstddef>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

}  // namespace

FlatLayout make_layout(const std::vector<std::string>& names,
                       const std::vector<std::int64_t>& counts) {
  LOCKSTEP_CHECK(names.size() == counts.size(), "a flat layout needs one count per name");
  FlatLayout layout;
  layout.slots.reserve(names.size());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    LOCKSTEP_CHECK(counts[i] >= 0, "negative element count of " + names[i]);
    layout.slots.push_back({names[i], offset, counts[i]});
    offset += round_up(counts[i], kPadElements);
  }
  layout.total = round_up(offset, kChunkElements);
  return layout;
}

}  // namespace lockstep::optim
