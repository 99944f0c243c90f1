// A file of a checkpoint, read by position.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::checkpoint {

class InputFile {
 public:
  /// \throws BadData (LS-5003) when there is no such regular file, EnvironmentFault (LS-5002) when
  /// it cannot be opened.
  explicit InputFile(std::filesystem::path path);

  /// Fills `out` from `offset`. \throws BadData (LS-5004) when the file ends before,
  /// EnvironmentFault (LS-5002) when the disk fails.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t size_bytes_ = 0;
};

/// The whole of a small file. \throws as InputFile; BadData when it is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::uint64_t max_bytes);

}  // namespace lockstep::checkpoint
