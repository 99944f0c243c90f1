// IDX arrays of bytes, the format of MNIST and its relatives (docs/formats/idx.md).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/labelled_images.h"

namespace lockstep::data {

inline constexpr std::uint8_t kIdxUnsignedByte = 0x08;  // the only element type read
inline constexpr std::size_t kIdxMaxDims = 4;

struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> values;  // row-major
};

/// \throws BadData (LS-2002, LS-2003, LS-2005) with file and offset.
[[nodiscard]] IdxArray parse_idx(ByteSource& source);

/// Writes an array of bytes; as gzip when the name ends in ".gz".
void write_idx(const std::string& path, const IdxArray& array);

enum class IdxPart { train, test };  // "train-images-...", "t10k-images-..."

/// [count, height, width] of the images that read_idx_images() would read, from the header alone:
/// none is 0. \throws as parse_idx(), EnvironmentFault when the file is missing.
[[nodiscard]] std::vector<std::int64_t> read_idx_dims(const std::string& location, IdxPart part);

/// The same, after a look at the labels' header. \throws as read_idx_images().
[[nodiscard]] std::vector<std::int64_t> check_idx_files(const std::string& location, IdxPart part);

/// Images with their labels. \param location a folder with the standard names (with or without
/// ".gz"), or the images file, whose name must contain "images-idx3": the labels file is that name
/// with "labels-idx1".
/// \throws EnvironmentFault when a file is missing, BadData when it is corrupt or counts differ,
/// UsageError when the labels' name cannot be derived.
[[nodiscard]] LabelledImages read_idx_images(const std::string& location, IdxPart part);

}  // namespace lockstep::data
