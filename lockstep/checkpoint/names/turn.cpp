#include "lockstep/checkpoint/names/turn.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kBandBytes = 4U << 20;
constexpr std::uint64_t kFewestRows = 16;  // a band writes that many elements side by side
constexpr std::uint64_t kMostRows = 256;   // and reads from that many places in turn

struct Matrix {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Puts `band_rows` rows from `first` on where they belong in the turned matrix.
template <std::size_t kBytes>
void place_band(std::span<const std::byte> band, Matrix matrix, std::uint64_t first,
                std::uint64_t band_rows, std::span<std::byte> turned) {
  for (std::uint64_t column = 0; column < matrix.columns; ++column) {
    const auto out = turned.subspan((column * matrix.rows + first) * kBytes, band_rows * kBytes);
    for (std::uint64_t row = 0; row < band_rows; ++row) {
      std::memcpy(&out[row * kBytes], &band[(row * matrix.columns + column) * kBytes], kBytes);
    }
  }
}

using PlaceBand = void (*)(std::span<const std::byte>, Matrix, std::uint64_t, std::uint64_t,
                           std::span<std::byte>);

PlaceBand place_band_of(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return place_band<1>;
    case 2:
      return place_band<2>;
    case 4:
      return place_band<4>;
    case 8:
      return place_band<8>;
    default:
      throw Bug(__FILE__, __LINE__, "a matrix of elements that are no whole bytes");
  }
}

}  // namespace

std::vector<std::byte> read_turned_matrix(const TensorSource& source, const Part& part,
                                          std::size_t element_bytes) {
  const PlaceBand place = place_band_of(element_bytes);
  const auto columns = static_cast<std::uint64_t>(part.turned_columns);
  const std::uint64_t row_bytes = columns * element_bytes;
  const Matrix matrix{part.bytes / row_bytes, columns};
  const std::uint64_t band_rows =
      std::min(matrix.rows, std::clamp(kBandBytes / row_bytes, kFewestRows, kMostRows));
  std::vector<std::byte> turned(part.bytes);
  std::vector<std::byte> band(band_rows * row_bytes);
  for (std::uint64_t first = 0; first < matrix.rows; first += band_rows) {
    const std::uint64_t rows = std::min(band_rows, matrix.rows - first);
    source.read(part.source, part.begin + first * row_bytes, {band.data(), rows * row_bytes});
    place(band, matrix, first, rows, turned);
  }
  return turned;
}

}  // namespace lockstep::checkpoint
