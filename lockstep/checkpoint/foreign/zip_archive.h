// Zip archives as PyTorch's files are: entries stored uncompressed, read in place and never
// extracted. Names are only compared, they are no paths.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of its bytes, from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;  // of its bytes; 0 may also mean that the writer took none
  bool stored = true;       // false: compressed, cannot be read
};

/// The directory of an archive that fills `length` bytes of a file from `begin` on. Thread-safe.
class ZipArchive {
 public:
  /// Reads the directory and the header of each entry. \param file must outlive this.
  /// \throws BadData (LS-5012) when it is no zip archive (it says what it looks like), is cut (it
  /// says up to where it is whole) or contradicts itself; as InputFile::read().
  ZipArchive(const InputFile& file, std::uint64_t begin, std::uint64_t length);
  explicit ZipArchive(const InputFile& file) : ZipArchive(file, 0, file.size_bytes()) {}

  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }  // in file order
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;  // nullptr: there is none

  /// Fills `out` with the entry's bytes from `begin` on. \pre begin + out.size() <= entry.bytes.
  /// \throws BadData (LS-5012) when it is compressed; as InputFile::read().
  void read(const ZipEntry& entry, std::uint64_t begin, std::span<std::byte> out) const;

  /// All bytes of a small entry, its checksum compared. \throws BadData: LS-5012 when larger than
  /// `max_bytes` or compressed, LS-5005 when the checksum differs; as read().
  [[nodiscard]] std::string read_all(const ZipEntry& entry, std::uint64_t max_bytes) const;

  /// Reads the entry and compares its checksum; nothing when the writer took none.
  /// \throws BadData (LS-5005) when it differs; as read().
  void verify(const ZipEntry& entry) const;

  /// Bytes of the whole archive.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// File and, when it is only a part of it, the byte where the archive begins; for messages.
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const InputFile& file_;
  std::uint64_t bytes_;
  std::string where_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace lockstep::checkpoint
