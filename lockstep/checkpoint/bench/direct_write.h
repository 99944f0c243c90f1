// What a disk takes when nothing else is in the way: the yardstick of saves.
#pragma once
#include <cstdint>
#include <filesystem>

namespace lockstep::checkpoint {

/// Writes a new file of `bytes` (rounded up to whole blocks), flushes it and removes it: with
/// O_DIRECT, or through the page cache where the file system knows no direct writes (tmpfs).
/// \returns seconds until it was flushed. \throws std::filesystem::filesystem_error.
[[nodiscard]] double direct_write_s(const std::filesystem::path& file, std::int64_t bytes);

}  // namespace lockstep::checkpoint
