#include "lockstep/checkpoint/format/safetensors.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/safetensors_json.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kAlignBytes = 8;

void check_without_gaps(const std::vector<TensorInfo>& tensors, const std::string& where) {
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      throw_damaged(where, "tensor \"" + tensor.name + "\" begins at data byte " +
                               std::to_string(tensor.begin) + ", the one before ends at " +
                               std::to_string(covered));
    }
    covered = tensor.end;
  }
}

std::uint64_t data_bytes_of(const SafetensorsHeader& header) {
  return header.tensors.empty() ? 0 : header.tensors.back().end;
}

void check_length(const SafetensorsHeader& header, std::uint64_t data_bytes,
                  const std::string& where) {
  if (data_bytes_of(header) != data_bytes) {
    throw_damaged(where, "its tensors need " + std::to_string(data_bytes_of(header)) +
                             " data bytes, it has " + std::to_string(data_bytes));
  }
}

SafetensorsHeader parse_any_length(std::string_view text, const std::string& where) {
  SafetensorsHeader header = parse_header_json(text, where);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_without_gaps(header.tensors, where);
  header.data_start = kLengthBytes + text.size();
  return header;
}

[[noreturn]] void throw_too_long(const std::string& where, std::uint64_t length,
                                 std::uint64_t limit) {
  constexpr std::uint64_t kStep = 100'000'000;
  const std::string enough = std::to_string((length + kStep - 1) / kStep * 100) + "MB";
  throw BadData({"LS-5004", where,
                 "header of " + format_count(static_cast<std::int64_t>(length)) +
                     " bytes, the limit is " + format_count(static_cast<std::int64_t>(limit)) +
                     " (--max-header " + enough + " raises it)",
                 "if the file is what it should be, give --max-header " + enough});
}

}  // namespace

std::vector<TensorInfo> lay_out(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::make_tuple(-element_order(a.dtype), std::cref(a.name)) <
           std::make_tuple(-element_order(b.dtype), std::cref(b.name));
  });
  std::uint64_t offset = 0;
  for (TensorInfo& tensor : tensors) {
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    LOCKSTEP_CHECK(bytes && element_bits(tensor.dtype) > 0, "no size for tensor " + tensor.name);
    tensor.begin = offset;
    tensor.end = offset += *bytes;
  }
  return tensors;
}

std::string write_safetensors_header(const std::vector<TensorInfo>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto add = [&text](const std::string& name, const ordered_json& value) {
    text += (text.size() > 1 ? "," : "") + json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) add(kMetadata, metadata);
  for (const TensorInfo& tensor : tensors) {
    add(tensor.name, {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {tensor.begin, tensor.end}}});
  }
  text += "}";
  text.append((kAlignBytes - text.size() % kAlignBytes) % kAlignBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xffU);
  }
  return length + text;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& where) {
  SafetensorsHeader header = parse_any_length(text, where);
  check_length(header, data_bytes, where);
  return header;
}

SafetensorsHeader read_safetensors_header(const InputFile& file, std::uint64_t max_header_bytes) {
  SafetensorsHeader header = read_header_of_any_length(file, max_header_bytes);
  check_length(header, file.size_bytes() - header.data_start, file.path().string());
  return header;
}

SafetensorsHeader read_header_of_any_length(const InputFile& file, std::uint64_t max_header_bytes) {
  const std::string where = file.path().string();
  std::array<std::byte, kLengthBytes> raw{};
  file.read(0, raw);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8U | std::to_integer<unsigned>(raw[i]);
  if (length > file.size_bytes() - kLengthBytes) {
    throw_damaged(where, "not a safetensors file, or truncated: a header of " +
                             std::to_string(length) + " bytes in a file of " +
                             std::to_string(file.size_bytes()));
  }
  if (length > max_header_bytes) throw_too_long(where, length, max_header_bytes);
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return parse_any_length(text, where);
}

std::uint64_t described_bytes(const SafetensorsHeader& header) {
  return header.data_start + data_bytes_of(header);
}

}  // namespace lockstep::checkpoint
