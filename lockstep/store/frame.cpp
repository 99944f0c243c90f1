#include "lockstep/store/frame.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::store {
namespace {

/// What follows the query byte: k key, v value, i u32, l u64, * a count of keys, + a count of
/// pairs.
constexpr std::array<std::string_view, kQueryCount> kFields{
    "i", "kv", "kvv", "k", "kl", "*", "*", "", "k", "kv", "*", "+", "", "i", "kv", "k", "k", ""};

}  // namespace

std::uint64_t read_little_endian(std::span<const std::uint8_t> bytes, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i > 0; --i) value = value << 8U | bytes[i - 1];
  return value;
}

ParseStatus RequestParser::refuse(std::string why) {
  refusal_ = std::move(why);
  return ParseStatus::refused;
}

ParseStatus RequestParser::advance(std::span<const std::uint8_t> bytes) {
  if (!started_) {
    if (bytes.empty()) return ParseStatus::need_more;
    if (bytes[0] >= kQueryCount) return refuse("unknown query " + std::to_string(bytes[0]));
    request_.query = static_cast<Query>(bytes[0]);
    fields_ = kFields.at(bytes[0]);
    position_ = 1;
    started_ = true;
  }
  while (true) {
    if (fields_.empty()) {
      if (items_left_ == 0) return ParseStatus::complete;
      --items_left_;
      fields_ = repeated_;
    }
    const ParseStatus status = read_field(bytes);
    if (status != ParseStatus::complete) return status;
    fields_.remove_prefix(1);
    if (position_ > kMaxRequestBytes) {
      return refuse("a request of more than " + std::to_string(kMaxRequestBytes) + " bytes");
    }
  }
}

ParseStatus RequestParser::read_field(std::span<const std::uint8_t> bytes) {
  const char kind = fields_.front();
  if (kind == 'k' || kind == 'v') return read_text(bytes, kind == 'k');
  const std::size_t width = kind == 'i' ? 4 : 8;
  if (bytes.size() - position_ < width) return ParseStatus::need_more;
  const std::uint64_t number = read_little_endian(bytes.subspan(position_), width);
  position_ += width;
  if (kind == 'i' || kind == 'l') {
    request_.number = number;
    return ParseStatus::complete;
  }
  if (number > kMaxKeyCount) return refuse("a count of " + std::to_string(number) + " keys");
  items_left_ = number;
  repeated_ = kind == '*' ? "k" : "kv";
  return ParseStatus::complete;
}

ParseStatus RequestParser::read_text(std::span<const std::uint8_t> bytes, bool is_key) {
  const auto rest = bytes.subspan(position_);
  if (rest.size() < 8) return ParseStatus::need_more;
  const std::uint64_t length = read_little_endian(rest, 8);
  if (length > (is_key ? kMaxKeyBytes : kMaxValueBytes)) {
    return refuse(std::string(is_key ? "a key of " : "a value of ") + std::to_string(length) +
                  " bytes");
  }
  if (rest.size() - 8 < length) return ParseStatus::need_more;
  const auto text = rest.subspan(8, length);
  if (is_key) {
    request_.keys.emplace_back(text.begin(), text.end());
  } else {
    request_.values.emplace_back(text.begin(), text.end());
  }
  position_ += 8 + length;
  return ParseStatus::complete;
}

RequestParser::Parsed RequestParser::take() {
  Parsed parsed{std::move(request_), position_};
  *this = RequestParser();
  return parsed;
}

FrameWriter& FrameWriter::u8(std::uint8_t value) {
  bytes_.push_back(value);
  return *this;
}

FrameWriter& FrameWriter::u32(std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) u8(static_cast<std::uint8_t>(value >> shift));
  return *this;
}

FrameWriter& FrameWriter::u64(std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) u8(static_cast<std::uint8_t>(value >> shift));
  return *this;
}

FrameWriter& FrameWriter::text(std::string_view value) {
  u64(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

FrameWriter& FrameWriter::text(const Bytes& value) {
  u64(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

}  // namespace lockstep::store
