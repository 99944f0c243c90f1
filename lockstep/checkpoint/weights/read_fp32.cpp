#include "lockstep/checkpoint/weights/read_fp32.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/box_runs.h"
#include "lockstep/checkpoint/tools/elements.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kWindowBytes = 4U << 20;  // read in one go
constexpr std::uint64_t kGapBytes = 64U << 10;    // read along, where it lies between two runs
constexpr std::uint64_t kBlock = 1024;            // elements that go by way of doubles
constexpr std::int64_t kTileRows = 64;
constexpr std::int64_t kTileColumns = 16384;

void to_fp32(ElementKind kind, std::span<const std::byte> bytes, std::span<float> out) {
  if (kind != ElementKind::f64) return to_floats(kind, bytes, out);
  std::array<double, kBlock> values;
  for (std::size_t at = 0; at < out.size(); at += kBlock) {
    const std::size_t count = std::min<std::size_t>(kBlock, out.size() - at);
    to_doubles(kind, bytes.subspan(at * sizeof(double), count * sizeof(double)),
               std::span(values).first(count));
    for (std::size_t i = 0; i < count; ++i) out[at + i] = static_cast<float>(values[i]);
  }
}

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= static_cast<std::uint64_t>(dim);
  return elements;
}

/// Bytes of one tensor of a source, seen as a tensor of their own.
class Stretch {
 public:
  Stretch(const TensorSource& source, const Part& part, Shape shape)
      : source_(source), part_(part), shape_(std::move(shape)) {
    const auto kind = element_kind(source.tensors()[part.source].dtype);
    LOCKSTEP_CHECK(kind.has_value(), "weights that are no numbers");
    kind_ = *kind;
    width_ = element_bytes(kind_);
  }

  /// Row-major.
  void read(const Box& box, std::span<float> out) {
    const BoxRuns runs(shape_, box);
    const std::uint64_t length = runs.elements();
    const std::uint64_t most = kWindowBytes / width_;
    for (std::uint64_t run = 0; run < runs.count();) {
      if (length >= most) {
        read_run(runs.start(run++), out.first(length));
        out = out.subspan(length);
        continue;
      }
      const std::uint64_t begin = runs.start(run);
      const std::uint64_t first = run;
      std::uint64_t end = begin + length;
      for (++run; run < runs.count(); ++run) {
        const std::uint64_t next = runs.start(run);
        if ((next - end) * width_ > kGapBytes || next + length - begin > most) break;
        end = next + length;
      }
      load(begin, end - begin);
      for (std::uint64_t i = first; i < run; ++i) {
        to_fp32(kind_,
                std::span(window_).subspan((runs.start(i) - begin) * width_, length * width_),
                out.first(length));
        out = out.subspan(length);
      }
    }
  }

 private:
  /// One run that is longer than a window.
  void read_run(std::uint64_t begin, std::span<float> out) {
    const std::uint64_t most = kWindowBytes / width_;
    for (std::uint64_t at = 0; at < out.size(); at += most) {
      const std::uint64_t count = std::min<std::uint64_t>(most, out.size() - at);
      const std::span<float> target = out.subspan(at, count);
      if (kind_ == ElementKind::f32) {
        source_.read(part_.source, part_.begin + (begin + at) * width_,
                     std::as_writable_bytes(target));
      } else {
        load(begin + at, count);
        to_fp32(kind_, window_, target);
      }
    }
  }

  void load(std::uint64_t begin, std::uint64_t elements) {
    window_.resize(elements * width_);
    source_.read(part_.source, part_.begin + begin * width_, window_);
  }

  const TensorSource& source_;
  const Part& part_;
  Shape shape_;
  ElementKind kind_{};
  std::uint64_t width_ = 0;
  std::vector<std::byte> window_;
};

/// \param tile `rows` rows, which become columns of `out` from `column` on.
void place_turned(std::span<const float> tile, std::int64_t rows, std::int64_t columns,
                  std::span<float> out, std::int64_t column, std::int64_t out_columns) {
  for (std::int64_t c = 0; c < columns; ++c) {
    float* to = out.data() + c * out_columns + column;
    for (std::int64_t r = 0; r < rows; ++r) {
      to[r] = tile[static_cast<std::size_t>(r * columns + c)];
    }
  }
}

/// The box of a matrix whose columns are the rows of `turned`.
void read_turned(Stretch& turned, const Box& box, std::span<float> out) {
  const std::int64_t rows = box.shape[0];
  const std::int64_t columns = box.shape[1];
  std::vector<float> tile;
  for (std::int64_t row = 0; row < rows; row += kTileColumns) {
    const std::int64_t tile_columns = std::min(kTileColumns, rows - row);
    for (std::int64_t column = 0; column < columns; column += kTileRows) {
      const std::int64_t tile_rows = std::min(kTileRows, columns - column);
      tile.resize(static_cast<std::size_t>(tile_rows * tile_columns));
      turned.read({{box.offset[1] + column, box.offset[0] + row}, {tile_rows, tile_columns}}, tile);
      place_turned(tile, tile_rows, tile_columns,
                   out.subspan(static_cast<std::size_t>(row * columns)), column, columns);
    }
  }
}

/// What the box has of the rows [first, first + rows); nothing of them = no rows.
Box rows_of(const Box& box, std::int64_t first, std::int64_t rows) {
  Box inside = box;
  const std::int64_t begin = std::max(box.offset[0], first);
  const std::int64_t end = std::min(box.offset[0] + box.shape[0], first + rows);
  inside.offset[0] = begin - first;
  inside.shape[0] = std::max<std::int64_t>(end - begin, 0);
  return inside;
}

void check(const NamedView& view, const Box& box, std::span<float> out) {
  const Shape& whole = view.tensor.shape;
  bool fits = box.offset.size() == whole.size() && box.shape.size() == whole.size();
  for (std::size_t dim = 0; fits && dim < whole.size(); ++dim) {
    fits = box.offset[dim] >= 0 && box.shape[dim] >= 0 && box.offset[dim] <= whole[dim] &&
           box.shape[dim] <= whole[dim] - box.offset[dim];
  }
  LOCKSTEP_CHECK(fits && elements_of(box.shape) == out.size(),
                 "a box that " + view.tensor.name + " does not have");
}

}  // namespace

void read_fp32(const TensorSource& source, const NamedView& view, const Box& box,
               std::span<float> out) {
  check(view, box, out);
  if (out.empty()) return;
  const Shape& whole = view.tensor.shape;
  if (whole.empty()) {
    Stretch(source, view.parts.at(0), {}).read({}, out);
    return;
  }
  const Shape row(whole.begin() + 1, whole.end());
  const std::uint64_t row_bytes = *tensor_bytes(view.tensor.dtype, row);
  std::int64_t first = 0;
  for (const Part& part : view.parts) {
    const auto rows = static_cast<std::int64_t>(part.bytes / row_bytes);
    const Box inside = rows_of(box, first, rows);
    first += rows;
    const std::uint64_t elements = elements_of(inside.shape);
    if (elements == 0) continue;
    Shape shape = whole;
    shape[0] = rows;
    if (part.turned_columns > 0) std::swap(shape[0], shape[1]);
    Stretch stretch(source, part, std::move(shape));
    if (part.turned_columns > 0) {
      read_turned(stretch, inside, out.first(elements));
    } else {
      stretch.read(inside, out.first(elements));
    }
    out = out.subspan(elements);
  }
}

void read_fp32(const TensorSource& source, const NamedView& view, std::span<float> out) {
  const Shape& shape = view.tensor.shape;
  read_fp32(source, view, {Shape(shape.size(), 0), shape}, out);
}

}  // namespace lockstep::checkpoint
