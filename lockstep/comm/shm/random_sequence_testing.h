// Random sequences of collectives and messages with what must come out, computed in one thread: a
// reference that shares no code with the collectives.
#pragma once
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm/reduce_kernel_half.h"

namespace lockstep::comm::shm::testing {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t limit) { return random() % limit; }

/// One rank's buffers in one step.
struct Side {
  Bytes input;
  Bytes output;
  Bytes expected;  // of the output
};

/// A collective of a group, or a message between two of its ranks.
struct Step {
  std::size_t group = 0;
  CollectiveKind kind{};
  std::size_t count = 0;
  std::vector<std::vector<std::size_t>> uneven{};  // elements [from][to]
  bool in_place = false;
  bool is_message = false;
  int from = 0;
  int to = 0;
  int tag = 0;
  bool from_any = false;
  std::vector<Side> sides{};  // by rank of the group

  [[nodiscard]] std::string text() const {
    const std::string ranks = " among " + std::to_string(sides.size()) + " ranks";
    if (!is_message) return describe(make_fingerprint(kind, count)) + ranks;
    return "message of " + std::to_string(count) + " " + std::string(name(kind.type)) +
           " from rank " + std::to_string(from) + " to rank " + std::to_string(to) + " (tag " +
           std::to_string(tag) + ")" + ranks;
  }
};

struct Sequence {
  unsigned seed = 0;
  bool small_pieces = false;
  std::vector<std::vector<int>> groups{};  // their ranks; the first one has all
  std::vector<Step> steps{};
};

// --- reductions -------------------------------------------------------------------------------

/// What an element of memory is as a number, and back with one rounding.
template <class T>
struct Number {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
  static Wide load(T value) { return static_cast<Wide>(value); }
  static T store(Wide value) { return static_cast<T>(value); }
};
template <>
struct Number<Bf16> {
  using Wide = float;
  static Wide load(Bf16 value) { return widen(value); }
  static Bf16 store(Wide value) { return narrow_bf16(value); }
};
template <>
struct Number<F16> {
  using Wide = float;
  static Wide load(F16 value) { return widen(value); }
  static F16 store(Wide value) { return narrow_f16(value); }
};

template <class Wide>
Wide combined(Reduction reduction, Wide a, Wide b) {
  if (reduction == Reduction::min) return std::min(a, b);
  if (reduction == Reduction::max) return std::max(a, b);
  if constexpr (std::is_integral_v<Wide>) {
    const auto x = static_cast<std::uint64_t>(a);  // its overflow wraps
    const auto y = static_cast<std::uint64_t>(b);
    if (reduction == Reduction::bit_and) return a & b;
    if (reduction == Reduction::bit_or) return a | b;
    if (reduction == Reduction::bit_xor) return a ^ b;
    return static_cast<Wide>(reduction == Reduction::product ? x * y : x + y);
  } else {
    return reduction == Reduction::product ? a * b : a + b;
  }
}

/// The balanced tree over `terms` [first, last).
template <class T>
typename Number<T>::Wide tree(Reduction reduction, const std::vector<const T*>& terms,
                              std::size_t i, std::size_t first, std::size_t last) {
  if (last - first == 1) return Number<T>::load(terms[first][i]);
  const std::size_t middle = first + (last - first) / 2;
  return combined(reduction, tree<T>(reduction, terms, i, first, middle),
                  tree<T>(reduction, terms, i, middle, last));
}

template <class T>
Bytes reduced_as(Reduction reduction, const std::vector<Side>& sides) {
  std::vector<const T*> terms;
  for (const Side& side : sides) terms.push_back(reinterpret_cast<const T*>(side.input.data()));
  Bytes out(sides.front().input.size());
  for (std::size_t i = 0; i < out.size() / sizeof(T); ++i) {
    auto value = tree<T>(reduction, terms, i, 0, terms.size());
    if (reduction == Reduction::mean) value /= static_cast<decltype(value)>(terms.size());
    const T narrow = Number<T>::store(value);
    std::memcpy(out.data() + i * sizeof(T), &narrow, sizeof narrow);
  }
  return out;
}

/// All inputs into one.
inline Bytes reduced(const CollectiveKind& kind, const std::vector<Side>& sides) {
  switch (kind.type) {
    case ElementType::f32:
      return reduced_as<float>(kind.reduction, sides);
    case ElementType::f64:
      return reduced_as<double>(kind.reduction, sides);
    case ElementType::bf16:
      return reduced_as<Bf16>(kind.reduction, sides);
    case ElementType::f16:
      return reduced_as<F16>(kind.reduction, sides);
    case ElementType::i8:
      return reduced_as<std::int8_t>(kind.reduction, sides);
    case ElementType::u8:
      return reduced_as<std::uint8_t>(kind.reduction, sides);
    case ElementType::i16:
      return reduced_as<std::int16_t>(kind.reduction, sides);
    case ElementType::i32:
      return reduced_as<std::int32_t>(kind.reduction, sides);
    case ElementType::i64:
      return reduced_as<std::int64_t>(kind.reduction, sides);
    case ElementType::boolean:
      break;
  }
  const bool any = kind.reduction == Reduction::sum || kind.reduction == Reduction::bit_or;
  const bool all = kind.reduction == Reduction::product || kind.reduction == Reduction::bit_and;
  return reduced_as<std::uint8_t>(any ? Reduction::max : (all ? Reduction::min : kind.reduction),
                                  sides);
}

// --- elements ---------------------------------------------------------------------------------

inline Bytes random_element(ElementType type, Random& random) {
  const auto as_bytes = [](auto value) {
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  const double real = std::uniform_real_distribution<double>(0.1, 4)(random);
  const double value = random() % 2 == 0 ? real : -real;
  switch (type) {
    case ElementType::f64:
      return as_bytes(value);
    case ElementType::f32:
      return as_bytes(static_cast<float>(value));
    case ElementType::bf16:
      return as_bytes(narrow_bf16(static_cast<float>(value)));
    case ElementType::f16:
      return as_bytes(narrow_f16(static_cast<float>(value)));
    case ElementType::boolean:
      return as_bytes(static_cast<std::uint8_t>(random() % 2));
    default:
      break;
  }
  Bytes bytes = as_bytes(random());
  bytes.resize(bytes_of(type));
  return bytes;
}

/// Copied from a table whose length has no factor in common with that of pieces.
inline Bytes random_elements(ElementType type, std::size_t count, Random& random) {
  constexpr std::size_t kTable = 1021;
  static std::vector<Bytes> tables(10);
  Bytes& table = tables[static_cast<std::size_t>(type)];
  Random of_table(static_cast<unsigned>(type));  // not `random`: a sequence may run alone
  while (table.size() < kTable * bytes_of(type)) {
    const Bytes element = random_element(type, of_table);
    table.insert(table.end(), element.begin(), element.end());
  }
  Bytes out(count * bytes_of(type));
  std::size_t from = below(random, kTable) * bytes_of(type);
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t bytes = std::min(table.size() - from, out.size() - at);
    std::memcpy(out.data() + at, table.data() + from, bytes);
    at += bytes;
    from = 0;
  }
  return out;
}

/// Around every border at which a collective takes another way, and in between.
inline std::size_t random_count(ElementType type, std::size_t ranks, Random& random) {
  constexpr std::size_t kPiece = 32 << 10;
  if (below(random, 2) == 0) return below(random, 40);
  const std::size_t borders[] = {32,         4096,           kPiece / ranks, kPiece,
                                 2 * kPiece, kPiece * ranks, 3 * kPiece,     2 * kPiece / ranks};
  const std::size_t border = borders[below(random, std::size(borders))] / bytes_of(type);
  if (below(random, 3) == 0) return below(random, border + 1);
  return border - 1 + below(random, 3);
}

// --- what must come out -----------------------------------------------------------------------

inline void append(Bytes& out, const Bytes& in, std::size_t offset, std::size_t count) {
  const auto begin = in.begin() + static_cast<std::ptrdiff_t>(offset);
  out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
}

inline void expect_all_to_all(Step& step, Random& random) {
  const std::size_t n = step.sides.size();
  const std::size_t unit = bytes_of(step.kind.type);
  auto counts = step.uneven;
  if (!step.kind.uneven) counts.assign(n, std::vector<std::size_t>(n, step.count));
  for (std::size_t from = 0; from < n; ++from) {
    const auto all = std::accumulate(counts[from].begin(), counts[from].end(), std::size_t{0});
    step.sides[from].input = random_elements(step.kind.type, all, random);
    std::size_t at = 0;
    for (std::size_t to = 0; to < n; ++to) {
      append(step.sides[to].expected, step.sides[from].input, at, counts[from][to] * unit);
      at += counts[from][to] * unit;
    }
  }
}

/// Draws the inputs and computes the outputs.
inline void fill(Step& step, Random& random) {
  const std::size_t n = step.sides.size();
  const std::size_t bytes = step.count * bytes_of(step.kind.type);
  const Collective collective = step.kind.collective;
  const auto root = static_cast<std::size_t>(step.is_message ? step.from : step.kind.root);
  const bool from_root = collective == Collective::broadcast || collective == Collective::scatter;
  const bool parts = collective == Collective::scatter || collective == Collective::reduce_scatter;
  if (step.is_message) {
    step.sides[root].input = random_elements(step.kind.type, step.count, random);
    step.sides[static_cast<std::size_t>(step.to)].expected = step.sides[root].input;
    return;
  }
  if (collective == Collective::barrier) return;
  if (collective == Collective::all_to_all) return expect_all_to_all(step, random);
  for (std::size_t r = 0; r < n; ++r) {
    if (from_root && r != root) continue;
    step.sides[r].input = random_elements(step.kind.type, step.count * (parts ? n : 1), random);
  }
  const bool reduces = collective <= Collective::reduce_scatter;
  const Bytes result = reduces ? reduced(step.kind, step.sides) : step.sides[root].input;
  for (std::size_t r = 0; r < n; ++r) {
    Bytes& expected = step.sides[r].expected;
    if (collective == Collective::all_gather || (collective == Collective::gather && r == root)) {
      for (const Side& side : step.sides) append(expected, side.input, 0, bytes);
    } else if (parts) {
      append(expected, result, r * bytes, bytes);
    } else if (collective == Collective::all_reduce ||
               (collective == Collective::reduce && r == root) ||
               (collective == Collective::broadcast && r != root)) {
      expected = result;
    }
  }
}

}  // namespace lockstep::comm::shm::testing
