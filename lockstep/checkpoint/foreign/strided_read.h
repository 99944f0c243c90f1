// Elements of a view in row-major order, whatever its strides: they are gathered by position.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

/// A view of a flat array; all in elements.
struct StridedView {
  Shape shape;
  Shape stride;  // as many as shape has, none negative
  std::uint64_t offset = 0;
  std::uint64_t element_bytes = 1;
};

/// How many elements of the array the view needs: one more than the last it touches, 0 for an empty
/// view. Nothing when that overflows, or a dim or stride is negative.
[[nodiscard]] std::optional<std::uint64_t> elements_reached(const StridedView& view);

/// Fills the span with the bytes of the array from that offset on.
using FetchBytes = std::function<void(std::uint64_t, std::span<std::byte>)>;

/// Fills `out` with bytes of the view from `begin` on. Holds at most 256 MiB of the array.
/// \param array_bytes of the whole; at least what elements_reached() needs.
/// \pre begin + out.size() <= bytes of the view.
void read_strided(const StridedView& view, std::uint64_t array_bytes, const FetchBytes& fetch,
                  std::uint64_t begin, std::span<std::byte> out);

}  // namespace lockstep::checkpoint
