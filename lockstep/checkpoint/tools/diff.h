// Two checkpoints compared: which tensors they have, and how far apart their values are.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// A tensor that both have in another type or shape.
struct FormDiff {
  std::string name;
  std::string dtype_a;
  std::string dtype_b;
  Shape shape_a;
  Shape shape_b;
};

/// The values of a tensor that both have in the same shape.
struct TensorDiff {
  std::string name;
  std::uint64_t elements = 0;
  bool are_bits_equal = false;  // same type and the same bytes
  /// Elements with other bits, also where only the sign of a zero or the bits of a NaN differ; of
  /// two types, elements with other values (two NaN are the same).
  std::uint64_t differing = 0;
  /// Elements that are NaN on one side alone; they count as differing, and in nothing below.
  std::uint64_t nan_on_one_side = 0;
  /// False where the elements are no numbers of whole bytes (complex, F4, F6): bytes are compared
  /// (for F4 and F6 `differing` counts them), and the rest is 0.
  bool are_numbers = true;
  double max_abs = 0;   // max |a - b|
  double mean_abs = 0;  // mean |a - b| over all elements
  double max_rel = 0;   // max |a - b| / max(|a|, |b|); infinite where |a - b| is
};

struct CheckpointDiff {
  std::vector<std::string> only_in_a;  // in the order of the sources
  std::vector<std::string> only_in_b;
  std::vector<FormDiff> forms;
  /// In the order of a; also those of other types, not those of other shapes.
  std::vector<TensorDiff> tensors;

  /// Same names, types, shapes and bits.
  [[nodiscard]] bool is_same() const;
};

struct DiffOptions {
  int threads = 2;
  /// Called after each tensor, from the thread of the caller; may throw to stop.
  std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_all)> progress;
};

/// An alias stands for its tensor: one that is stored on one side and an alias on the other is on
/// both. The numbers do not depend on the threads. Takes 8 MiB of memory a thread.
/// \throws as TensorSource::read().
[[nodiscard]] CheckpointDiff diff(const TensorSource& a, const TensorSource& b,
                                  const DiffOptions& options = {});

}  // namespace lockstep::checkpoint
