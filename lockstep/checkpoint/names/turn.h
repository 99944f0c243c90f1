// Turns a matrix over while it is read.
#pragma once
#include <cstddef>
#include <vector>

#include "lockstep/checkpoint/names/renamed_source.h"

namespace lockstep::checkpoint {

/// The matrix of `part`, columns first. Takes as much memory as that and a band of rows.
/// \pre part.turned_columns > 0. \param element_bytes 1, 2, 4 or 8. \throws as source.read().
[[nodiscard]] std::vector<std::byte> read_turned_matrix(const TensorSource& source,
                                                        const Part& part,
                                                        std::size_t element_bytes);

}  // namespace lockstep::checkpoint
