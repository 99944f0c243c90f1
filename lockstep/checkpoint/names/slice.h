// Rows of a stored tensor, perhaps turned over, and tensors laid one below the other: what views
// of renamed checkpoints are made of. Shapes come from files: nothing here trusts them.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/renamed_source.h"

namespace lockstep::checkpoint {

/// A part and what it looks like, or why it cannot be had.
struct Slice {
  std::string dtype;
  Shape shape;
  Part part;
  std::string fault;  // empty = it can
};

/// All of `source.tensors()[index]`.
[[nodiscard]] Slice slice_all(const TensorSource& source, std::size_t index, Layout layout);
/// Rows (of dim 0) of it, turned after they are taken. \pre they lie inside.
[[nodiscard]] Slice slice_rows(const TensorSource& source, std::size_t index,
                               std::int64_t first_row, std::int64_t rows, Layout layout);

/// Dtype, shape and parts of slices that lie one below the other; name and kind stay empty.
struct Stack {
  NamedView view;
  std::string fault;
};
/// \pre there is one at least, and none has a fault.
[[nodiscard]] Stack stack(std::span<const Slice> slices);

}  // namespace lockstep::checkpoint
