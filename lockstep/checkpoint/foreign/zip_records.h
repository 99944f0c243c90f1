// The records of a zip archive (PKWARE's APPNOTE.TXT), as bytes: fields are little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::checkpoint::zip {

inline constexpr std::string_view kLocalMark = "PK\3\4";        // header before an entry's bytes
inline constexpr std::string_view kDescriptorMark = "PK\7\10";  // sizes after an entry's bytes
inline constexpr std::string_view kCentralMark = "PK\1\2";      // an entry's place in the directory
inline constexpr std::string_view kEnd64Mark = "PK\6\6";
inline constexpr std::string_view kLocatorMark = "PK\6\7";  // where the record before is
inline constexpr std::string_view kEndMark = "PK\5\6";      // last in the file

// Without names, extra fields and comments.
inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kCentralBytes = 46;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kLocatorBytes = 20;
inline constexpr std::size_t kEndBytes = 22;

inline constexpr std::uint64_t kMax16 = 0xffff;
inline constexpr std::uint64_t kMax32 =
    0xffffffff;                          // in a 32-bit field: see the 64-bit extra field
inline constexpr unsigned kExtra64 = 1;  // id of that field
inline constexpr unsigned kFlagEncrypted = 1U << 0U;
inline constexpr unsigned kFlagDescriptor = 1U << 3U;
inline constexpr unsigned kFlagUtf8 = 1U << 11U;
inline constexpr std::uint64_t kAlignBytes = 64;  // PyTorch's .storage_alignment

/// \pre at + width <= record.size().
[[nodiscard]] std::uint64_t field(std::string_view record, std::size_t at, std::size_t width);

/// What a writer knows of an entry.
struct Record {
  std::string name;
  std::uint64_t header = 0;  // offset of its local header
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

/// Header of an entry, filled so that its bytes begin at a multiple of kAlignBytes. Its checksum
/// follows in the descriptor.
[[nodiscard]] std::string local_header(const Record& record);
/// What follows the bytes; nothing after none.
[[nodiscard]] std::string descriptor(const Record& record);
/// Everything after the last entry. \param begin its offset.
[[nodiscard]] std::string directory(std::span<const Record> records, std::uint64_t begin);

}  // namespace lockstep::checkpoint::zip
