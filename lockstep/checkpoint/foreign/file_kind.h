// What a file is that is not the archive it was taken for.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {

/// "empty", "an HTML page: what was downloaded is not the file", "a pointer of git-lfs, not the
/// file itself"; empty when its first bytes say nothing. Reads a few hundred bytes. \throws as
/// InputFile::read().
[[nodiscard]] std::string kind_of_file(const InputFile& file, std::uint64_t begin,
                                       std::uint64_t length);

}  // namespace lockstep::checkpoint
