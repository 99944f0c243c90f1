#include "lockstep/checkpoint/foreign/zip_cut.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/checkpoint/foreign/zip_records.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMaxScanBytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20U;
constexpr std::size_t kDescriptor32Bytes = 16;
constexpr std::size_t kDescriptor64Bytes = 24;
constexpr int kMaxEntries = 1 << 20;

class Walk {
 public:
  Walk(const InputFile& file, std::uint64_t begin, std::uint64_t length)
      : file_(file), begin_(begin), length_(length) {}

  /// Goes on to the next entry. \returns whether it is complete.
  bool next() {
    if (length_ - at_ < zip::kLocalBytes) return false;
    const std::string header = read(at_, zip::kLocalBytes);
    if (!header.starts_with(zip::kLocalMark)) return false;
    const std::uint64_t name_bytes = zip::field(header, 26, 2);
    const std::uint64_t data = at_ + zip::kLocalBytes + name_bytes + zip::field(header, 28, 2);
    if (data > length_) return false;
    std::string name = read(at_ + zip::kLocalBytes, name_bytes);
    const auto end = end_of(header, data);
    if (!end || !is_utf8(name)) return false;
    name_ = std::move(name);
    at_ = *end;
    return true;
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::string read(std::uint64_t at, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    file_.read(begin_ + at, std::as_writable_bytes(std::span(text)));
    return text;
  }

  /// Where the next header begins; nothing when the entry's bytes are cut.
  std::optional<std::uint64_t> end_of(const std::string& header, std::uint64_t data) {
    const std::uint64_t bytes = zip::field(header, 18, 4);
    if (bytes == 0 && (zip::field(header, 6, 2) & zip::kFlagDescriptor) != 0) return scan(data);
    if (bytes == zip::kMax32 || bytes > length_ - data) return std::nullopt;
    const std::uint64_t end = data + bytes;
    return end + descriptor_bytes(read(end, std::min(length_ - end, kDescriptorBytes)), bytes);
  }

  /// Length of the descriptor that `text` begins with if it is that of an entry of `bytes`; else 0.
  static std::uint64_t descriptor_bytes(std::string_view text, std::uint64_t bytes) {
    if (!text.starts_with(zip::kDescriptorMark)) return 0;
    const auto holds = [&](std::size_t at, std::size_t width) {
      return text.size() >= at + width && zip::field(text, at, width) == bytes;
    };
    if (holds(8, 8) && holds(16, 8)) return kDescriptor64Bytes;
    return holds(8, 4) && holds(12, 4) ? kDescriptor32Bytes : 0;
  }

  /// The size is only in the descriptor behind the bytes: looks for the one that gives the
  /// distance.
  std::optional<std::uint64_t> scan(std::uint64_t data) {
    for (std::uint64_t at = data; at < length_ && scanned_ < kMaxScanBytes; at += kChunkBytes) {
      const std::string chunk = read(at, std::min(length_ - at, kChunkBytes + kDescriptorBytes));
      scanned_ += chunk.size();
      for (std::size_t mark = chunk.find(zip::kDescriptorMark); mark < kChunkBytes;
           mark = chunk.find(zip::kDescriptorMark, mark + 1)) {
        const std::string_view text = std::string_view(chunk).substr(mark);
        const std::uint64_t found = descriptor_bytes(text, at + mark - data);
        if (found > 0) return at + mark + found;
      }
    }
    return std::nullopt;
  }

  static constexpr std::uint64_t kDescriptorBytes = kDescriptor64Bytes;
  const InputFile& file_;
  std::uint64_t begin_;
  std::uint64_t length_;
  std::uint64_t at_ = 0;
  std::uint64_t scanned_ = 0;
  std::string name_;
};

}  // namespace

std::string last_complete_entry(const InputFile& file, std::uint64_t begin, std::uint64_t length) {
  Walk walk(file, begin, length);
  for (int i = 0; i < kMaxEntries && walk.next();) ++i;
  return walk.name();
}

}  // namespace lockstep::checkpoint
