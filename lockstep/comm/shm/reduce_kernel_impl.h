// Included once by the file of each instruction set, which is compiled for it; everything here has
// internal linkage, so that no instruction set leaks into another's code.
#pragma once
#include <cstdint>

#include "lockstep/comm/shm/reduce_kernel.h"
#include "lockstep/comm/shm/reduce_kernel_half.h"
#include "lockstep/comm/shm/reduce_kernel_stream.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kTile = 512;  // elements: accumulators stay in the first-level cache

// --- what one element is accumulated in -----------------------------------------------------

template <class T>
struct Element {
  using Wide = T;
  static Wide load(T value) { return value; }
  static T store(Wide value) { return value; }
};
template <>
struct Element<Bf16> {
  using Wide = float;
  static Wide load(Bf16 value) { return widen(value); }
  static Bf16 store(Wide value) { return narrow_bf16(value); }
};
template <>
struct Element<F16> {
  using Wide = float;
  static Wide load(F16 value) { return widen(value); }
  static F16 store(Wide value) { return narrow_f16(value); }
};

// Integers add and multiply as unsigned numbers: overflow wraps, as in PyTorch.
template <class T>
struct Wrap {
  using Type = T;
};
template <>
struct Wrap<std::int8_t> {
  using Type = std::uint8_t;
};
template <>
struct Wrap<std::int16_t> {
  using Type = std::uint32_t;  // uint16_t would be promoted to int, whose product overflows
};
template <>
struct Wrap<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct Wrap<std::int64_t> {
  using Type = std::uint64_t;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrap<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrap<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {  // NaN wins, as in PyTorch
  template <class T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// --- the tree ---------------------------------------------------------------------------------

/// wide[0..count) = the tree over terms [first, last) of elements [offset, offset + count).
template <class T, class Op>
void reduce_tile(typename Element<T>::Wide* wide, const void* const* terms, int first, int last,
                 std::size_t offset, std::size_t count) {
  using E = Element<T>;
  const T* const a = static_cast<const T*>(terms[first]) + offset;
  if (last - first == 1) {
    for (std::size_t i = 0; i < count; ++i) wide[i] = E::load(a[i]);
    return;
  }
  if (last - first == 2) {
    const T* const b = static_cast<const T*>(terms[first + 1]) + offset;
    for (std::size_t i = 0; i < count; ++i) wide[i] = Op::apply(E::load(a[i]), E::load(b[i]));
    return;
  }
  typename E::Wide right[kTile];
  const int middle = first + (last - first) / 2;
  reduce_tile<T, Op>(wide, terms, first, middle, offset, count);
  reduce_tile<T, Op>(right, terms, middle, last, offset, count);
  for (std::size_t i = 0; i < count; ++i) wide[i] = Op::apply(wide[i], right[i]);
}

/// `Mean` divides by n before the one rounding.
template <class T, class Op, bool Mean>
void reduce_array(void* out, const void* const* terms, int n, std::size_t count) {
  using E = Element<T>;
  using Wide = typename E::Wide;
  T* const result = static_cast<T*>(out);
  if (n == 2 && !Mean) {
    const T* const a = static_cast<const T*>(terms[0]);
    const T* const b = static_cast<const T*>(terms[1]);
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = E::store(Op::apply(E::load(a[i]), E::load(b[i])));
    }
    return;
  }
  Wide wide[kTile];
  for (std::size_t offset = 0; offset < count; offset += kTile) {
    const std::size_t tile = count - offset < kTile ? count - offset : kTile;
    reduce_tile<T, Op>(wide, terms, 0, n, offset, tile);
    if constexpr (Mean) {
      for (std::size_t i = 0; i < tile; ++i)
        wide[i] = static_cast<Wide>(wide[i] / static_cast<Wide>(n));
    }
    for (std::size_t i = 0; i < tile; ++i) result[offset + i] = E::store(wide[i]);
  }
}

// --- the table --------------------------------------------------------------------------------

template <class T>
ReduceFunction arithmetic(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return reduce_array<T, Sum, false>;
    case Reduction::product:
      return reduce_array<T, Product, false>;
    case Reduction::min:
      return reduce_array<T, Min, false>;
    case Reduction::max:
      return reduce_array<T, Max, false>;
    default:
      return nullptr;
  }
}

template <class T>
ReduceFunction floating(Reduction reduction) {
  return reduction == Reduction::mean ? reduce_array<T, Sum, true> : arithmetic<T>(reduction);
}

template <class T>
ReduceFunction integral(Reduction reduction) {
  switch (reduction) {
    case Reduction::bit_and:
      return reduce_array<T, And, false>;
    case Reduction::bit_or:
      return reduce_array<T, Or, false>;
    case Reduction::bit_xor:
      return reduce_array<T, Xor, false>;
    default:
      return arithmetic<T>(reduction);
  }
}

ReduceFunction boolean(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::max:
    case Reduction::bit_or:
      return reduce_array<std::uint8_t, Or, false>;
    case Reduction::product:
    case Reduction::min:
    case Reduction::bit_and:
      return reduce_array<std::uint8_t, And, false>;
    case Reduction::bit_xor:
      return reduce_array<std::uint8_t, Xor, false>;
    case Reduction::mean:
      break;
  }
  return nullptr;
}

ReduceFunction reduce_function(ElementType type, Reduction reduction) {
  switch (type) {
    case ElementType::f32:
      return floating<float>(reduction);
    case ElementType::f64:
      return floating<double>(reduction);
    case ElementType::bf16:
      return floating<Bf16>(reduction);
    case ElementType::f16:
      return floating<F16>(reduction);
    case ElementType::i8:
      return integral<std::int8_t>(reduction);
    case ElementType::u8:
      return integral<std::uint8_t>(reduction);
    case ElementType::i16:
      return integral<std::int16_t>(reduction);
    case ElementType::i32:
      return integral<std::int32_t>(reduction);
    case ElementType::i64:
      return integral<std::int64_t>(reduction);
    case ElementType::boolean:
      return boolean(reduction);
  }
  return nullptr;
}

}  // namespace
}  // namespace lockstep::comm::shm
