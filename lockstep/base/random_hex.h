// Names and secrets that nobody can guess.
#pragma once
#include <cstddef>
#include <string>

namespace lockstep {

/// `digits` random hex digits, four bits each, from the kernel's generator. \throws
/// std::runtime_error when it fails.
[[nodiscard]] std::string random_hex(std::size_t digits);

}  // namespace lockstep
