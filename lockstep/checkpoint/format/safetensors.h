// The header of a safetensors file: u64 little-endian length, JSON, then the tensors' bytes
// (docs/formats/checkpoint.md). Written as Hugging Face's library writes it, read with nothing
// taken on trust.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kLengthBytes = 8;

struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I64", ...
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in file order; together they cover the data without a gap
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;  // bytes from the start of the file
};

/// Gives each tensor its place: wide elements first, so that all are aligned; then by name.
/// Needs dtype and shape. Bug when a dtype is unknown.
[[nodiscard]] std::vector<TensorInfo> lay_out(std::vector<TensorInfo> tensors);

/// Length and JSON, padded with spaces to 8 bytes. \param tensors from lay_out().
[[nodiscard]] std::string write_safetensors_header(
    const std::vector<TensorInfo>& tensors, const std::map<std::string, std::string>& metadata);

/// Parses the JSON part. \param data_bytes what follows it in the file; \param where the file.
/// \throws BadData (LS-5004): JSON faults, unknown dtype, sizes that disagree or overflow,
/// overlaps, holes, bytes that belong to no tensor.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& where);

/// Reads only the header. \throws as parse_safetensors_header() and InputFile::read(); BadData
/// (LS-5004) when the JSON is longer than `max_header_bytes`, naming the flag that raises it.
[[nodiscard]] SafetensorsHeader read_safetensors_header(
    const InputFile& file, std::uint64_t max_header_bytes = kMaxHeaderBytes);

/// As read_safetensors_header(), of a file that may end before or behind the data of its tensors:
/// compare with described_bytes().
[[nodiscard]] SafetensorsHeader read_header_of_any_length(
    const InputFile& file, std::uint64_t max_header_bytes = kMaxHeaderBytes);

/// The size of the file that a header belongs to.
[[nodiscard]] std::uint64_t described_bytes(const SafetensorsHeader& header);

}  // namespace lockstep::checkpoint
