#include "lockstep/checkpoint/format/safetensors.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/strict_json.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr int kMaxDepth = 3;  // file, tensor, shape
constexpr std::uint64_t kAlignBytes = 8;

std::map<std::string, std::string> parse_metadata(const StrictJson& fields,
                                                  const std::string& where) {
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : fields.object()) {
    metadata[key] = StrictJson(value, "__metadata__." + key, where).text();
  }
  return metadata;
}

TensorInfo parse_tensor(const std::string& name, const StrictJson& fields) {
  TensorInfo tensor{name, fields["dtype"].text(), fields["shape"].naturals()};
  const auto offsets = fields["data_offsets"].naturals();
  if (offsets.size() != 2 || offsets[0] > offsets[1]) fields.fail("data_offsets is no range");
  tensor.begin = static_cast<std::uint64_t>(offsets[0]);
  tensor.end = static_cast<std::uint64_t>(offsets[1]);
  if (element_bits(tensor.dtype) == 0) fields.fail("unknown dtype");
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes) fields.fail("shape " + to_text(tensor.shape) + " has no size in bytes");
  if (*bytes != tensor.end - tensor.begin) {
    fields.fail(tensor.dtype + " " + to_text(tensor.shape) + " needs " + std::to_string(*bytes) +
                " bytes, its range has " + std::to_string(tensor.end - tensor.begin));
  }
  return tensor;
}

void check_covered(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes,
                   const std::string& where) {
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      throw_damaged(where, "tensor \"" + tensor.name + "\" begins at data byte " +
                               std::to_string(tensor.begin) + ", the one before ends at " +
                               std::to_string(covered));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    throw_damaged(where, "its tensors need " + std::to_string(covered) + " data bytes, it has " +
                             std::to_string(data_bytes));
  }
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
  const json document = parse_strict_json(text, kMaxDepth, where);
  SafetensorsHeader header;
  for (const auto& [name, value] : StrictJson(document, "", where).object()) {
    if (name == kMetadata) {
      header.metadata = parse_metadata({value, kMetadata, where}, where);
    } else {
      header.tensors.push_back(parse_tensor(name, {value, "tensor \"" + name + "\"", where}));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_covered(header.tensors, data_bytes, where);
  header.data_start = kLengthBytes + text.size();
  return header;
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::string where = file.path().string();
  std::array<std::byte, kLengthBytes> raw{};
  file.read(0, raw);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8U | std::to_integer<unsigned>(raw[i]);
  const std::uint64_t room = file.size_bytes() - kLengthBytes;
  if (length > kMaxHeaderBytes || length > room) {
    throw_damaged(where, "not a safetensors file, or truncated: a header of " +
                             std::to_string(length) + " bytes in a file of " +
                             std::to_string(file.size_bytes()));
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return parse_safetensors_header(text, room - length, where);
}

}  // namespace lockstep::checkpoint
