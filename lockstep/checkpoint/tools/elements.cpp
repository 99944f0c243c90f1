#include "lockstep/checkpoint/tools/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/float16.h"

namespace lockstep::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored little-endian");

struct Row {
  std::string_view dtype;
  ElementKind kind;
  std::size_t bytes;
};

constexpr auto kRows = std::to_array<Row>({{"F64", ElementKind::f64, 8},
                                           {"F32", ElementKind::f32, 4},
                                           {"F16", ElementKind::f16, 2},
                                           {"BF16", ElementKind::bf16, 2},
                                           {"F8_E4M3", ElementKind::f8_e4m3, 1},
                                           {"F8_E5M2", ElementKind::f8_e5m2, 1},
                                           {"F8_E8M0", ElementKind::f8_e8m0, 1},
                                           {"I64", ElementKind::i64, 8},
                                           {"I32", ElementKind::i32, 4},
                                           {"I16", ElementKind::i16, 2},
                                           {"I8", ElementKind::i8, 1},
                                           {"U64", ElementKind::u64, 8},
                                           {"U32", ElementKind::u32, 4},
                                           {"U16", ElementKind::u16, 2},
                                           {"U8", ElementKind::u8, 1},
                                           {"BOOL", ElementKind::boolean, 1}});

/// Elements that are read in one go, so that loops have a known length and become vector code.
constexpr std::size_t kBlock = 256;

/// Reads `Stored` by `Stored`, whatever the alignment.
template <typename Stored, typename Value, typename Convert>
void convert(std::span<const std::byte> bytes, std::span<Value> out, Convert value_of) {
  std::array<Stored, kBlock> stored;
  const std::byte* from = bytes.data();
  std::size_t at = 0;
  for (; at + kBlock <= out.size(); at += kBlock, from += sizeof stored) {
    std::memcpy(stored.data(), from, sizeof stored);
    for (std::size_t i = 0; i < kBlock; ++i) out[at + i] = value_of(stored[i]);
  }
  const std::size_t rest = out.size() - at;
  if (rest > 0) std::memcpy(stored.data(), from, rest * sizeof(Stored));
  for (std::size_t i = 0; i < rest; ++i) out[at + i] = value_of(stored[i]);
}

template <typename Value>
void convert_any(ElementKind kind, std::span<const std::byte> bytes, std::span<Value> out) {
  LOCKSTEP_CHECK(bytes.size() == out.size() * element_bytes(kind), "wrong number of bytes");
  const auto as_value = [](auto number) { return static_cast<Value>(number); };
  switch (kind) {
    case ElementKind::f64:
      return convert<double>(bytes, out, as_value);
    case ElementKind::f32:
      return convert<float>(bytes, out, as_value);
    case ElementKind::f16:
      return convert<Fp16Bits>(bytes, out, [](Fp16Bits v) { return Value{to_fp32(v)}; });
    case ElementKind::bf16:
      return convert<std::uint16_t>(bytes, out, [](std::uint16_t bits) {
        return Value{std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U)};
      });
    case ElementKind::i64:
      return convert<std::int64_t>(bytes, out, as_value);
    case ElementKind::i32:
      return convert<std::int32_t>(bytes, out, as_value);
    case ElementKind::i16:
      return convert<std::int16_t>(bytes, out, as_value);
    case ElementKind::u64:
      return convert<std::uint64_t>(bytes, out, as_value);
    case ElementKind::u32:
      return convert<std::uint32_t>(bytes, out, as_value);
    case ElementKind::u16:
      return convert<std::uint16_t>(bytes, out, as_value);
    case ElementKind::f8_e4m3:
    case ElementKind::f8_e5m2:
    case ElementKind::f8_e8m0:
    case ElementKind::i8:
    case ElementKind::u8:
    case ElementKind::boolean:
      break;
  }
  const std::array<double, 256>& values = byte_values(kind);
  convert<std::uint8_t>(bytes, out, [&](std::uint8_t b) { return static_cast<Value>(values[b]); });
}

/// 4 bits of exponent (bias 7), 3 of mantissa (Micikevicius et al. 2022, E4M3).
double e4m3(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 3U & 0xfU);
  const int mantissa = static_cast<int>(bits & 7U);
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80U) != 0 ? -size : size;
}

double value_of_byte(ElementKind kind, unsigned bits) {
  switch (kind) {
    case ElementKind::f8_e4m3:
      return e4m3(bits);
    case ElementKind::f8_e5m2:  // the upper half of an fp16
      return to_fp32(static_cast<Fp16Bits>(bits << 8U));
    case ElementKind::f8_e8m0:
      return bits == 0xff ? std::numeric_limits<double>::quiet_NaN()
                          : std::ldexp(1.0, static_cast<int>(bits) - 127);
    case ElementKind::i8:
      return static_cast<std::int8_t>(bits);
    case ElementKind::boolean:
      return bits == 0 ? 0 : 1;
    default:
      return bits;
  }
}

std::array<double, 256> table_of(ElementKind kind) {
  std::array<double, 256> values{};
  for (unsigned bits = 0; bits < values.size(); ++bits) values[bits] = value_of_byte(kind, bits);
  return values;
}

}  // namespace

std::optional<ElementKind> element_kind(std::string_view dtype) {
  const auto* row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.dtype == dtype; });
  return row == kRows.end() ? std::nullopt : std::optional(row->kind);
}

std::size_t element_bytes(ElementKind kind) {
  return kRows.at(static_cast<std::size_t>(kind)).bytes;
}

void to_doubles(ElementKind kind, std::span<const std::byte> bytes, std::span<double> out) {
  convert_any(kind, bytes, out);
}

void to_floats(ElementKind kind, std::span<const std::byte> bytes, std::span<float> out) {
  convert_any(kind, bytes, out);
}

const std::array<double, 256>& byte_values(ElementKind kind) {
  static const auto kTables = [] {
    std::array<std::array<double, 256>, kRows.size()> tables{};
    for (const Row& row : kRows) {
      if (row.bytes == 1) tables[static_cast<std::size_t>(row.kind)] = table_of(row.kind);
    }
    return tables;
  }();
  LOCKSTEP_CHECK(element_bytes(kind) == 1, "no table of values for elements of several bytes");
  return kTables[static_cast<std::size_t>(kind)];
}

}  // namespace lockstep::checkpoint
