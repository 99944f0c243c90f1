// One pass over the elements of a tensor: everything that tensor_stats.h reports.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "lockstep/checkpoint/tools/elements.h"

namespace lockstep::checkpoint {

/// Number, mean and sum of squared deviations of finite values, combined as Chan, Golub and LeVeque
/// (1979) do. long double also holds the squares of large doubles.
struct Moments {
  std::uint64_t count = 0;
  long double mean = 0;
  long double squares = 0;

  /// Depends on the order in the last places: merge in a fixed one.
  void merge(const Moments& other);
};

/// What does not depend on the order of the elements.
struct Tallies {
  /// Values of one sign by the exponent field of a double; slot 0 also counts zeros, and fp32
  /// subnormals.
  using Exponents = std::array<std::uint64_t, 2048>;

  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t zeros = 0;
  double min = std::numeric_limits<double>::infinity();  // of finite values
  double max = -std::numeric_limits<double>::infinity();
  Exponents positive{};
  Exponents negative{};

  void merge(const Tallies& other);
};

/// Adds elements. \pre whole elements, at most 1 GiB.
void gather(ElementKind kind, std::span<const std::byte> bytes, Tallies& tallies, Moments& moments);

}  // namespace lockstep::checkpoint
