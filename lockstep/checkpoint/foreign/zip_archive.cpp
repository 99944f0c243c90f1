#include "lockstep/checkpoint/foreign/zip_archive.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/crc32.h"
#include "lockstep/checkpoint/foreign/file_kind.h"
#include "lockstep/checkpoint/foreign/not_torch.h"
#include "lockstep/checkpoint/foreign/zip_cut.h"
#include "lockstep/checkpoint/foreign/zip_records.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{1} << 28U;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;

std::string count_text(std::uint64_t count) {
  return format_count(static_cast<std::int64_t>(count));
}

/// An entry while the directory is read: offsets count from the start of the archive.
struct Found {
  ZipEntry entry;
  std::uint64_t header = 0;
  std::uint64_t packed_bytes = 0;  // what its bytes take in the file
};

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(const InputFile& file, std::uint64_t begin, std::uint64_t length,
                  const std::string& where)
      : file_(file), begin_(begin), length_(length), where_(where) {}

  std::vector<ZipEntry> entries() {
    const Directory directory = find_directory();
    std::vector<Found> found = parse(directory);
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::tie(a.header, a.entry.name) < std::tie(b.header, b.entry.name);
    });
    std::vector<ZipEntry> entries;
    std::uint64_t end = 0;
    for (Found& each : found) {
      if (each.header < end) fail("entry " + each.entry.name + " overlaps the one before");
      end = place(each, directory.begin);
      entries.push_back(std::move(each.entry));
    }
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw_not_torch(where_, what); }

  [[nodiscard]] std::string read(std::uint64_t at, std::uint64_t bytes) const {
    if (at > length_ || bytes > length_ - at) {
      fail("its directory points to byte " + std::to_string(at) + ", the archive has " +
           count_text(length_));
    }
    std::string text(bytes, '\0');
    file_.read(begin_ + at, std::as_writable_bytes(std::span(text)));
    return text;
  }

  [[noreturn]] void throw_without_end() const {
    const std::uint64_t head = std::min<std::uint64_t>(length_, zip::kLocalMark.size());
    if (read(0, head) != zip::kLocalMark) {
      const std::string kind = kind_of_file(file_, begin_, length_);
      fail("not a zip archive, as torch.save writes them: it is " +
           (kind.empty() ? std::string("nothing known") : kind));
    }
    const std::string last = last_complete_entry(file_, begin_, length_);
    fail("truncated: no end-of-directory record; " + count_text(length_) + " bytes, " +
         (last.empty() ? "no entry is complete" : "the last complete entry is " + last));
  }

  /// Offset of the record that ends the archive.
  [[nodiscard]] std::uint64_t find_end() const {
    const std::uint64_t tail_bytes =
        std::min<std::uint64_t>(length_, zip::kEndBytes + zip::kMax16);  // its comment at most
    const std::string tail = read(length_ - tail_bytes, tail_bytes);
    for (std::size_t at = tail.rfind(zip::kEndMark); at != std::string::npos;
         at = at == 0 ? std::string::npos : tail.rfind(zip::kEndMark, at - 1)) {
      const std::size_t left = tail.size() - at;
      if (left >= zip::kEndBytes && zip::field(tail, at + 20, 2) == left - zip::kEndBytes) {
        return length_ - left;
      }
    }
    throw_without_end();
  }

  [[nodiscard]] Directory find_directory() const {
    const std::uint64_t end = find_end();
    const std::string record = read(end, zip::kEndBytes);
    Directory directory{zip::field(record, 16, 4), zip::field(record, 12, 4),
                        zip::field(record, 10, 2)};
    std::uint64_t limit = end;
    const auto locator = end < zip::kLocatorBytes
                             ? std::string()
                             : read(end - zip::kLocatorBytes, zip::kLocatorBytes);
    if (locator.starts_with(zip::kLocatorMark)) {
      limit = zip::field(locator, 8, 8);
      const std::string wide = read(limit, zip::kEnd64Bytes);
      if (!wide.starts_with(zip::kEnd64Mark)) fail("no 64-bit end record where one should be");
      directory = {zip::field(wide, 48, 8), zip::field(wide, 40, 8), zip::field(wide, 32, 8)};
    }
    check(directory, limit);
    return directory;
  }

  void check(const Directory& directory, std::uint64_t limit) const {
    if (directory.begin > limit || directory.bytes != limit - directory.begin) {
      fail("its directory of " + count_text(directory.bytes) + " bytes at byte " +
           std::to_string(directory.begin) + " does not end at byte " + std::to_string(limit) +
           ": bytes were added or are missing");
    }
    if (directory.bytes > kMaxDirectoryBytes) fail("a directory larger than 256 MiB");
    if (directory.count > directory.bytes / zip::kCentralBytes) {
      fail(count_text(directory.count) + " entries in a directory of " +
           count_text(directory.bytes) + " bytes");
    }
  }

  [[nodiscard]] std::vector<Found> parse(const Directory& directory) const {
    const std::string bytes = read(directory.begin, directory.bytes);
    std::string_view rest = bytes;
    std::vector<Found> found;
    found.reserve(directory.count);
    for (std::uint64_t i = 0; i < directory.count; ++i) found.push_back(parse_entry(rest));
    if (!rest.empty()) fail(count_text(rest.size()) + " bytes of its directory are no entry");
    return found;
  }

  /// Takes one entry off the directory.
  Found parse_entry(std::string_view& rest) const {
    if (rest.size() < zip::kCentralBytes || !rest.starts_with(zip::kCentralMark)) {
      fail("its directory is damaged, " + count_text(rest.size()) + " bytes before its end");
    }
    const std::string_view record = rest.substr(0, zip::kCentralBytes);
    const std::size_t name_bytes = zip::field(record, 28, 2);
    const std::size_t extra_bytes = zip::field(record, 30, 2);
    const std::size_t all = record.size() + name_bytes + extra_bytes + zip::field(record, 32, 2);
    if (all > rest.size()) fail("its directory is cut within an entry");
    Found found;
    found.entry.name = rest.substr(record.size(), name_bytes);
    if (!is_utf8(found.entry.name)) fail("the name of an entry is not UTF-8");
    found.entry.crc32 = static_cast<std::uint32_t>(zip::field(record, 16, 4));
    found.entry.stored = zip::field(record, 10, 2) == 0;
    if ((zip::field(record, 8, 2) & zip::kFlagEncrypted) != 0) {
      fail("entry " + found.entry.name + " is encrypted");
    }
    set_sizes(found, record, rest.substr(record.size() + name_bytes, extra_bytes));
    rest.remove_prefix(all);
    return found;
  }

  /// Sizes and offset, from the 64-bit field where the 32-bit one is full.
  void set_sizes(Found& found, std::string_view record, std::string_view extra) const {
    std::string_view wide = find_extra(extra);
    const auto value = [&](std::size_t at) {
      const std::uint64_t narrow = zip::field(record, at, 4);
      if (narrow != zip::kMax32) return narrow;
      if (wide.size() < 8) fail("entry " + found.entry.name + " lacks its 64-bit sizes");
      const std::uint64_t number = zip::field(wide, 0, 8);
      wide.remove_prefix(8);
      return number;
    };
    found.entry.bytes = value(24);
    found.packed_bytes = value(20);
    found.header = value(42);
    if (found.entry.stored && found.entry.bytes != found.packed_bytes) {
      fail("entry " + found.entry.name + " has two sizes");
    }
  }

  static std::string_view find_extra(std::string_view extra) {
    while (extra.size() >= 4) {
      const std::size_t bytes = zip::field(extra, 2, 2);
      if (bytes > extra.size() - 4) break;
      if (zip::field(extra, 0, 2) == zip::kExtra64) return extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
    }
    return {};
  }

  /// Finds the entry's bytes behind its header. \returns where they end; before `limit`.
  std::uint64_t place(Found& found, std::uint64_t limit) const {
    ZipEntry& entry = found.entry;
    const std::uint64_t head_bytes = zip::kLocalBytes + entry.name.size();
    if (found.header > limit || head_bytes > limit - found.header) {
      fail("entry " + entry.name + " begins behind the entries");
    }
    const std::string head = read(found.header, head_bytes);
    if (!head.starts_with(zip::kLocalMark) || zip::field(head, 26, 2) != entry.name.size() ||
        head.substr(zip::kLocalBytes) != entry.name) {
      fail("no header of entry " + entry.name + " at byte " + std::to_string(found.header));
    }
    const std::uint64_t data = found.header + head_bytes + zip::field(head, 28, 2);
    if (data > limit || found.packed_bytes > limit - data) {
      fail("entry " + entry.name + " of " + count_text(found.packed_bytes) +
           " bytes is larger than what is left of the archive");
    }
    entry.offset = begin_ + data;
    return data + found.packed_bytes;
  }

  const InputFile& file_;
  std::uint64_t begin_;
  std::uint64_t length_;
  const std::string& where_;
};

std::string place_of(const InputFile& file, std::uint64_t begin, std::uint64_t length) {
  std::string path = file.path().string();
  if (begin == 0 && length == file.size_bytes()) return path;
  return path + ", archive at byte " + std::to_string(begin);
}

}  // namespace

ZipArchive::ZipArchive(const InputFile& file, std::uint64_t begin, std::uint64_t length)
    : file_(file), bytes_(length), where_(place_of(file, begin, length)) {
  if (begin > file.size_bytes() || length > file.size_bytes() - begin) {
    throw_not_torch(where_, "truncated: " + count_text(length) +
                                " bytes should be there, the file has " +
                                count_text(file.size_bytes()));
  }
  entries_ = DirectoryReader(file, begin, length, where_).entries();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      throw_not_torch(where_, "two entries are named " + entries_[i].name);
    }
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipArchive::read(const ZipEntry& entry, std::uint64_t begin, std::span<std::byte> out) const {
  if (!entry.stored) {
    throw_not_torch(where_, "entry " + entry.name +
                                " is compressed, which PyTorch does not do: unpack the archive and "
                                "store it without compression (zip -0)");
  }
  LOCKSTEP_CHECK(begin <= entry.bytes && out.size() <= entry.bytes - begin, "read past an entry");
  file_.read(entry.offset + begin, out);
}

std::string ZipArchive::read_all(const ZipEntry& entry, std::uint64_t max_bytes) const {
  read(entry, 0, {});  // refuses a compressed one
  if (entry.bytes > max_bytes) {
    throw_not_torch(where_,
                    "entry " + entry.name + " is larger than " + count_text(max_bytes) + " bytes");
  }
  verify(entry);
  std::string text(entry.bytes, '\0');
  read(entry, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

void ZipArchive::verify(const ZipEntry& entry) const {
  if (entry.crc32 == 0 && entry.stored) return;
  std::vector<std::byte> chunk(std::min<std::uint64_t>(entry.bytes, kChunkBytes));
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < entry.bytes; at += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(entry.bytes - at, kChunkBytes));
    read(entry, at, chunk);
    sum = crc32(chunk, sum);
  }
  if (sum == entry.crc32) return;
  throw BadData({"LS-5005", where_,
                 "entry " + entry.name + ", " + count_text(entry.bytes) + " bytes from byte " +
                     std::to_string(entry.offset) + ": the checksum does not match",
                 "copy the file again from where it was made"});
}

}  // namespace lockstep::checkpoint
