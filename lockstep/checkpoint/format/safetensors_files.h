// Finds the safetensors files that a path stands for, opens them and compares them with each other.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/safetensors.h"

namespace lockstep::checkpoint {

struct SafetensorsPart {
  InputFile file;
  SafetensorsHeader header;  // fits the file
};

/// \param path as SafetensorsSource has it. \returns the files in the order of their names, no
/// tensor in two of them. \throws Error (exit bad_data) with every fault: LS-5003 when there is
/// nothing of the kind at `path`; LS-5004 for a file of several that is missing, damaged, too short
/// (with both sizes and the tensors lost) or too long, and for tensors that are not where the index
/// says; EnvironmentFault (LS-5002).
[[nodiscard]] std::vector<SafetensorsPart> open_safetensors(const std::filesystem::path& path,
                                                            std::uint64_t max_header_bytes);

}  // namespace lockstep::checkpoint
