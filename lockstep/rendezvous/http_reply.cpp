#include "lockstep/rendezvous/http_reply.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace lockstep::rendezvous {
namespace {

/// Nothing but a number in that base, which fits.
bool read_number(std::string_view text, int base, std::size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return result;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

HttpReply::Took HttpReply::refuse(const std::string& why) {
  refusal_ = why;
  return Took::refused;
}

HttpReply::Took HttpReply::add(std::string_view bytes) {
  if (!refusal_.empty()) return Took::refused;
  if (part_ == Part::end && !bytes.empty()) return refuse("more than one answer");
  input_.append(bytes);
  const Took took = step();
  if (took == Took::complete && !input_.empty()) return refuse("more than one answer");
  return took;
}

/// As far as what came goes.
HttpReply::Took HttpReply::step() {
  while (part_ != Part::end) {
    if (part_ == Part::head || part_ == Part::trailer) {
      const Took took = read_head();
      if (took != Took::complete) return took;
    } else if (part_ == Part::body) {
      take_body(Part::end);
      if (left_ > 0) return Took::need_more;
    } else if (part_ == Part::chunk) {
      take_body(Part::chunk_end);
      if (left_ > 0) return Took::need_more;
    } else if (part_ == Part::chunk_end) {
      if (input_.size() < 2) return Took::need_more;
      if (!input_.starts_with("\r\n")) return refuse("a chunk without an end");
      input_.erase(0, 2);
      part_ = Part::chunk_size;
    } else {
      const Took took = read_chunk_size();
      if (took != Took::complete) return took;
    }
  }
  return Took::complete;
}

/// False when its end has not come. A line counts as a part of the head.
bool HttpReply::take_line(std::string& line) {
  const auto end = input_.find("\r\n");
  if (end == std::string::npos) return false;
  line = input_.substr(0, end);
  input_.erase(0, end + 2);
  head_bytes_ += line.size() + 2;
  return true;
}

/// Lines up to the empty one, of the head or after the last chunk.
HttpReply::Took HttpReply::read_head() {
  std::string line;
  while (take_line(line)) {
    if (head_bytes_ > kMaxHeadBytes) return refuse("a head of more than 16 KiB");
    if (status_ == 0) {
      std::size_t status = 0;
      const bool is_http = line.size() >= 12 && line.starts_with("HTTP/1.") &&
                           (line[7] == '0' || line[7] == '1') && line[8] == ' ' &&
                           (line.size() == 12 || line[12] == ' ');
      if (!is_http || !read_number(std::string_view(line).substr(9, 3), 10, status) ||
          status < 200) {
        return refuse("what answers is no HTTP server");
      }
      status_ = static_cast<int>(status);
      closes_ = line[7] == '0';
    } else if (!line.empty()) {
      if (part_ == Part::head && !read_field(line)) return refuse("a bad field '" + line + "'");
    } else if (part_ == Part::trailer) {
      part_ = Part::end;
      return Took::complete;
    } else if (is_chunked_ == has_length_) {
      return refuse("an answer without a length, or with two");
    } else {
      part_ = is_chunked_ ? Part::chunk_size : Part::body;
      return Took::complete;
    }
  }
  if (head_bytes_ + input_.size() > kMaxHeadBytes) return refuse("a head of more than 16 KiB");
  return Took::need_more;
}

bool HttpReply::read_field(const std::string& line) {
  const auto colon = line.find(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string name = lower(line.substr(0, colon));
  const std::string value = lower(trimmed(std::string_view(line).substr(colon + 1)));
  if (name == "content-length") {
    if (has_length_ || !read_number(value, 10, left_) || left_ > kMaxBodyBytes) return false;
    has_length_ = true;
  } else if (name == "transfer-encoding") {
    if (is_chunked_ || value != "chunked") return false;
    is_chunked_ = true;
  } else if (name == "connection") {
    closes_ = closes_ || value == "close";
  }
  return true;
}

HttpReply::Took HttpReply::read_chunk_size() {
  std::string line;
  const std::size_t head_bytes = head_bytes_;
  if (!take_line(line)) {
    return input_.size() > kMaxHeadBytes + 1 ? refuse("a chunk without a size") : Took::need_more;
  }
  head_bytes_ = head_bytes;
  const std::string_view size = trimmed(std::string_view(line).substr(0, line.find(';')));
  if (line.size() > kMaxHeadBytes || !read_number(size, 16, left_) ||
      left_ > kMaxBodyBytes - body_.size()) {
    return refuse("a chunk of the size '" + line.substr(0, 32) + "'");
  }
  part_ = left_ > 0 ? Part::chunk : Part::trailer;
  return Took::complete;
}

void HttpReply::take_body(Part next) {
  const std::size_t count = std::min(left_, input_.size());
  body_.append(input_, 0, count);
  input_.erase(0, count);
  left_ -= count;
  if (left_ == 0) part_ = next;
}

}  // namespace lockstep::rendezvous
