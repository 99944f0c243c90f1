#include "lockstep/checkpoint/foreign/crc32.h"

#include <array>
#include <cstring>

namespace lockstep::checkpoint {
namespace {

// Eight bytes a step: kTables[k][b] is what byte b does to the sum when k bytes follow it.
// ("Slicing-by-8": Kounavis and Berry, A Systematic Approach to Building High Performance
// Software-Based CRC Generators, 2005.)
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1U ^ ((sum & 1U) != 0 ? 0xedb88320U : 0U);
    tables[0][byte] = sum;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = before >> 8U ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t step(std::uint32_t sum, std::uint64_t word) {
  word ^= sum;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < kSlices; ++i) {
    next ^= kTables[kSlices - 1 - i][word >> 8U * i & 0xffU];
  }
  return next;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t sum = ~before;
  while (bytes.size() >= kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kSlices);
    sum = step(sum, word);
    bytes = bytes.subspan(kSlices);
  }
  for (const std::byte byte : bytes) {
    sum = sum >> 8U ^ kTables[0][(sum ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
  }
  return ~sum;
}

}  // namespace lockstep::checkpoint
