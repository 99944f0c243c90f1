// How far an archive without a directory is whole.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {

/// Name of the last entry whose bytes are all there, found by walking from header to header; empty
/// when there is none. Reads at most 1 GiB. \throws as InputFile::read().
[[nodiscard]] std::string last_complete_entry(const InputFile& file, std::uint64_t begin,
                                              std::uint64_t length);

}  // namespace lockstep::checkpoint
