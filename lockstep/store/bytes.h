// A value of the store.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::store {

using Bytes = std::vector<std::uint8_t>;

}  // namespace lockstep::store
