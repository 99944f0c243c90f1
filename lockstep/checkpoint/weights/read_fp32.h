// Reads matched weights as fp32, whatever their type and however they lie in the file.
#pragma once
#include <cstddef>
#include <span>

#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/tensor_source.h"
#include "lockstep/checkpoint/names/renamed_source.h"

namespace lockstep::checkpoint {

/// Fills `out` with the elements of `box` of the view, row-major. Takes at most 9 MiB of memory
/// besides, and reads little more than the box. Thread-safe. \param view parts of `source`, of one
/// of the types that match_weights() takes. \pre box lies inside view.tensor.shape, and `out` has
/// its elements. \throws as TensorSource::read().
void read_fp32(const TensorSource& source, const NamedView& view, const Box& box,
               std::span<float> out);
/// All of it.
void read_fp32(const TensorSource& source, const NamedView& view, std::span<float> out);

}  // namespace lockstep::checkpoint
