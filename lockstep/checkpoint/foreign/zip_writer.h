// Writes a zip archive as PyTorch's writer does: stored entries, their bytes at multiples of 64.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/foreign/zip_records.h"

namespace lockstep::checkpoint {

/// Usage: for each entry begin(), then write() until its bytes are complete; then commit(). Without
/// commit() nothing is left. Entries and archives may exceed 4 GB (zip64).
class ZipWriter {
 public:
  /// \throws std::filesystem::filesystem_error, also from write() and commit().
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}

  /// Begins an entry of exactly `bytes`. The one before must be complete. \pre name < 64 kB.
  void begin(std::string name, std::uint64_t bytes);
  void write(std::span<const std::byte> bytes);
  /// A whole small entry.
  void add(std::string name, std::string_view text);
  /// Bytes of the entry at hand that are still to come.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// Checksum of the checksums of all entries so far.
  [[nodiscard]] std::uint32_t checksum_of_all() const;
  /// Writes the directory and gives the file its name.
  void commit();

 private:
  void put(std::string_view bytes);
  void end_entry();

  AtomicFile file_;
  std::uint64_t position_ = 0;
  std::uint64_t left_ = 0;
  std::vector<zip::Record> records_;
};

}  // namespace lockstep::checkpoint
