// Every strategy built in, by name; one row per file of this folder.
#pragma once
#include <span>

#include "lockstep/parallel/strategy.h"

namespace lockstep::parallel {

[[nodiscard]] std::span<const Strategy> strategies();

}  // namespace lockstep::parallel
