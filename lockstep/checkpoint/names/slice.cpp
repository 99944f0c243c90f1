#include "lockstep/checkpoint/names/slice.h"

#include <algorithm>
#include <utility>

namespace lockstep::checkpoint {
namespace {

std::string form(const std::string& dtype, const Shape& shape) {
  return dtype + " " + to_text(shape);
}

/// Its rows become columns.
void turn(Slice& slice) {
  if (slice.shape.size() != 2) {
    slice.fault = form(slice.dtype, slice.shape) + " is no matrix";
  } else if (element_bits(slice.dtype) % 8 != 0) {
    slice.fault = slice.dtype + " has no whole bytes to turn over";
  } else {
    if (slice.part.bytes > 0) slice.part.turned_columns = slice.shape[1];
    std::swap(slice.shape[0], slice.shape[1]);
  }
}

bool same_rows(const Slice& a, const Slice& b) {
  return a.dtype == b.dtype && !a.shape.empty() && a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

}  // namespace

Slice slice_all(const TensorSource& source, std::size_t index, Layout layout) {
  const StoredTensor& tensor = source.tensors()[index];
  Slice slice{tensor.dtype, tensor.shape, {index, 0, tensor.bytes()}, {}};
  if (layout == Layout::turned) turn(slice);
  return slice;
}

Slice slice_rows(const TensorSource& source, std::size_t index, std::int64_t first_row,
                 std::int64_t rows, Layout layout) {
  const StoredTensor& tensor = source.tensors()[index];
  Slice slice{tensor.dtype, tensor.shape, {index}, {}};
  slice.shape[0] = first_row;
  const auto before = tensor_bytes(tensor.dtype, slice.shape);
  slice.shape[0] = rows;
  const auto bytes = tensor_bytes(tensor.dtype, slice.shape);
  if (!before || !bytes) {
    slice.fault = form(tensor.dtype, tensor.shape) + " cannot be cut between whole bytes";
    return slice;
  }
  slice.part.begin = *before;
  slice.part.bytes = *bytes;
  if (layout == Layout::turned) turn(slice);
  return slice;
}

Stack stack(std::span<const Slice> slices) {
  const Slice& top = slices.front();
  Stack all{{{{}, top.dtype, top.shape}, {}}, {}};
  Shape& shape = all.view.tensor.shape;
  all.view.parts.push_back(top.part);
  for (const Slice& next : slices.subspan(1)) {
    if (!same_rows(top, next) || __builtin_add_overflow(shape[0], next.shape[0], shape.data())) {
      all.fault =
          form(next.dtype, next.shape) + " cannot stand below " + form(top.dtype, top.shape);
      return all;
    }
    all.view.parts.push_back(next.part);
  }
  if (!tensor_bytes(top.dtype, shape)) all.fault = form(top.dtype, shape) + " is too large";
  return all;
}

}  // namespace lockstep::checkpoint
