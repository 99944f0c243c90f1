#include "lockstep/checkpoint/foreign/zip_records.h"

#include <algorithm>

namespace lockstep::checkpoint::zip {
namespace {

constexpr std::uint64_t kMadeByUnix = 0x031e;
constexpr std::uint64_t kNeeds = 45;          // version of zip that has 64-bit sizes
constexpr std::uint64_t kNewYear1980 = 0x21;  // files of the same content are the same
constexpr std::size_t kExtraHead = 4;         // id and length of an extra field

void put(std::string& record, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) record += static_cast<char>(value >> 8U * i & 0xffU);
}

bool is_64(const Record& record) { return record.bytes >= kMax32 || record.header >= kMax32; }

unsigned flags(const Record& record) {
  return kFlagUtf8 | (record.bytes > 0 ? kFlagDescriptor : 0);
}

/// Sizes and offset that do not fit their fields.
std::string extra_64(const Record& record) {
  if (!is_64(record)) return {};
  std::string values;
  if (record.bytes >= kMax32) {
    put(values, record.bytes, 8);
    put(values, record.bytes, 8);
  }
  if (record.header >= kMax32) put(values, record.header, 8);
  std::string extra;
  put(extra, kExtra64, 2);
  put(extra, values.size(), 2);
  return extra + values;
}

/// An extra field that nobody reads, as PyTorch's writer has it: 'FB', length, 'Z' ...
std::string filler(std::uint64_t begin) {
  const std::uint64_t count = (kAlignBytes - (begin + kExtraHead) % kAlignBytes) % kAlignBytes;
  std::string extra = "FB";
  put(extra, count, 2);
  return extra.append(count, 'Z');
}

/// Fields that a local header and an entry of the directory have in common.
std::string common_fields(const Record& record, std::uint32_t crc32, std::uint64_t bytes,
                          std::size_t extra_bytes) {
  std::string text;
  put(text, kNeeds, 2);
  put(text, flags(record), 2);
  put(text, 0, 2);  // stored
  put(text, 0, 2);  // midnight
  put(text, kNewYear1980, 2);
  put(text, crc32, 4);
  put(text, std::min(bytes, kMax32), 4);
  put(text, std::min(bytes, kMax32), 4);
  put(text, record.name.size(), 2);
  put(text, extra_bytes, 2);
  return text;
}

std::string central(const Record& record) {
  const std::string extra = extra_64(record);
  std::string text(kCentralMark);
  put(text, kMadeByUnix, 2);
  text += common_fields(record, record.crc32, record.bytes, extra.size());
  put(text, 0, 2 + 2 + 2);  // comment, disk, attributes
  put(text, 0, 4);          // attributes of the system
  put(text, std::min(record.header, kMax32), 4);
  return text + record.name + extra;
}

std::string end_64(std::uint64_t count, std::uint64_t bytes, std::uint64_t begin) {
  std::string text(kEnd64Mark);
  put(text, kEnd64Bytes - 12, 8);  // what follows this field
  put(text, kMadeByUnix, 2);
  put(text, kNeeds, 2);
  put(text, 0, 4 + 4);  // disks
  put(text, count, 8);
  put(text, count, 8);
  put(text, bytes, 8);
  put(text, begin, 8);
  return text;
}

}  // namespace

std::uint64_t field(std::string_view record, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(record[at + i]);
  }
  return value;
}

std::string local_header(const Record& record) {
  std::string extra = extra_64(record);
  extra += filler(record.header + kLocalBytes + record.name.size() + extra.size());
  return std::string(kLocalMark) + common_fields(record, 0, 0, extra.size()) + record.name + extra;
}

std::string descriptor(const Record& record) {
  if (record.bytes == 0) return {};
  std::string text(kDescriptorMark);
  put(text, record.crc32, 4);
  const std::size_t width = is_64(record) ? 8 : 4;
  put(text, record.bytes, width);
  put(text, record.bytes, width);
  return text;
}

std::string directory(std::span<const Record> records, std::uint64_t begin) {
  std::string text;
  for (const Record& record : records) text += central(record);
  const std::uint64_t bytes = text.size();
  text += end_64(records.size(), bytes, begin);
  text += kLocatorMark;
  put(text, 0, 4);  // disk
  put(text, begin + bytes, 8);
  put(text, 1, 4);  // disks
  text += kEndMark;
  put(text, 0, 2 + 2);  // disks
  put(text, std::min<std::uint64_t>(records.size(), kMax16), 2);
  put(text, std::min<std::uint64_t>(records.size(), kMax16), 2);
  put(text, std::min(bytes, kMax32), 4);
  put(text, std::min(begin, kMax32), 4);
  put(text, 0, 2);  // comment
  return text;
}

}  // namespace lockstep::checkpoint::zip
