#include "lockstep/checkpoint/format/manifest.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/strict_json.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormatName = "lockstep-checkpoint";
constexpr int kMaxDepth = 16;
// The first line holds the checksum of everything after it.
constexpr std::string_view kBeforeSum = "{\"xxh3\":\"";
constexpr std::string_view kAfterSum = "\",\n";
constexpr std::size_t kFirstLine = kBeforeSum.size() + kChecksumDigits + kAfterSum.size();

ordered_json to_json(const Piece& piece) {
  ordered_json sums = ordered_json::array();
  for (const std::uint64_t sum : piece.checksums) sums.push_back(to_hex(sum));
  return {{"file", piece.file},
          {"offset", piece.offset},
          {"shape", piece.shape},
          {"byte_offset", piece.byte_offset},
          {"byte_count", piece.byte_count},
          {"xxh3", sums}};
}

ordered_json to_json(const ManifestTensor& tensor) {
  ordered_json pieces = ordered_json::array();
  for (const Piece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", tensor.name},   {"kind", tensor.kind},       {"dtype", tensor.dtype},
          {"shape", tensor.shape}, {"aliases", tensor.aliases}, {"pieces", pieces}};
}

/// A plain name: a manifest must not lead out of its folder.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

std::uint64_t parse_sum(const StrictJson& digits) {
  const auto sum = from_hex(digits.text());
  if (!sum) digits.fail("not 16 hex digits");
  return *sum;
}

/// One for each block; in version 1 one of all of the piece.
void parse_sums(const StrictJson& sums, Piece& piece) {
  if (sums.raw().is_string()) {
    piece.checksums.push_back(parse_sum(sums));
    piece.block_bytes = std::max<std::uint64_t>(1, piece.byte_count);
    if (piece.byte_count == 0) piece.checksums.clear();
    return;
  }
  for (const StrictJson& sum : sums.items()) piece.checksums.push_back(parse_sum(sum));
  if (piece.checksums.size() != block_count(piece.byte_count, piece.block_bytes)) {
    sums.fail("not one for each block of " + std::to_string(piece.block_bytes) + " bytes");
  }
}

Piece parse_piece(const StrictJson& fields, const ManifestTensor& tensor,
                  const std::map<std::string, std::uint64_t>& file_bytes) {
  Piece piece;
  piece.file = fields["file"].text();
  piece.offset = fields["offset"].naturals();
  piece.shape = fields["shape"].naturals();
  piece.byte_offset = static_cast<std::uint64_t>(fields["byte_offset"].natural());
  piece.byte_count = static_cast<std::uint64_t>(fields["byte_count"].natural());
  const auto file = file_bytes.find(piece.file);
  if (file == file_bytes.end()) fields["file"].fail("not in the list of files");
  if (piece.byte_offset > file->second || piece.byte_count > file->second - piece.byte_offset) {
    fields.fail("lies outside its file");
  }
  if (tensor_bytes(tensor.dtype, piece.shape) != piece.byte_count) {
    fields.fail("byte_count does not fit the shape " + to_text(piece.shape));
  }
  parse_sums(fields["xxh3"], piece);
  return piece;
}

ManifestTensor parse_tensor(const StrictJson& fields,
                            const std::map<std::string, std::uint64_t>& file_bytes) {
  ManifestTensor tensor;
  tensor.name = fields["name"].text();
  tensor.kind = fields["kind"].text();
  tensor.dtype = fields["dtype"].text();
  tensor.shape = fields["shape"].naturals();
  tensor.aliases = fields["aliases"].texts();
  if (element_bits(tensor.dtype) == 0) fields["dtype"].fail("unknown");
  if (!tensor_bytes(tensor.dtype, tensor.shape)) fields["shape"].fail("has no size in bytes");
  for (const StrictJson& piece : fields["pieces"].items()) {
    tensor.pieces.push_back(parse_piece(piece, tensor, file_bytes));
  }
  std::vector<Box> boxes;
  for (const Piece& piece : tensor.pieces) boxes.push_back({piece.offset, piece.shape});
  const std::string fault = why_not_covered(tensor.shape, boxes);
  if (!fault.empty()) fields.fail("tensor \"" + tensor.name + "\": " + fault);
  return tensor;
}

std::map<std::string, std::uint64_t> parse_files(const StrictJson& list, const std::string& where) {
  std::map<std::string, std::uint64_t> file_bytes;
  for (const auto& [name, bytes] : list.object()) {
    if (!is_plain_file_name(name)) list.fail("\"" + name + "\" is no plain file name");
    file_bytes[name] =
        static_cast<std::uint64_t>(StrictJson(bytes, "files." + name, where).natural());
  }
  return file_bytes;
}

void check_version(const StrictJson& root, const std::string& where) {
  if (root["format"].text() != kFormatName) root["format"].fail("not a checkpoint of lockstep");
  const std::int64_t version = root["format_version"].natural();
  if (version > kFormatVersion) {
    throw BadData({"LS-5007", where,
                   "written in format " + std::to_string(version) + "; this program reads up to " +
                       std::to_string(kFormatVersion),
                   "use the version of lockstep that wrote it, or a newer one"});
  }
}

/// Only checkpoints of fp16 training have it.
void read_loss_scale(const StrictJson& root, Manifest& manifest) {
  if (!root.object().contains("loss_scale")) return;
  const StrictJson fields = root["loss_scale"];
  manifest.loss_scale = fields["scale"].number();
  manifest.good_steps = fields["good_steps"].natural();
  if (manifest.loss_scale <= 0) fields["scale"].fail("not above 0");
}

void check_names(const Manifest& manifest, const std::string& where) {
  std::set<std::string> seen;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (!seen.insert(tensor.name).second) {
      throw_damaged(where, "tensor \"" + tensor.name + "\" stands twice");
    }
  }
}

}  // namespace

std::string piece_to_json(const Piece& piece) { return to_json(piece).dump(); }

Piece piece_from_json(const std::string& text) {
  const json document = json::parse(text);
  Piece piece{document.at("file"),        document.at("offset"),     document.at("shape"),
              document.at("byte_offset"), document.at("byte_count"), {}};
  const std::string where = "a rank's report of what it wrote";
  parse_sums(StrictJson(document.at("xxh3"), "xxh3", where), piece);
  return piece;
}

std::string write_manifest(const Manifest& m) {
  std::string body;
  const auto field = [&body](const char* key, const ordered_json& value) {
    body += json(key).dump() + ":" + value.dump() + ",\n";
  };
  field("format", kFormatName);
  field("format_version", kFormatVersion);
  field("step", m.step);
  field("position", {{"epoch", m.epoch}, {"sample", m.sample}});
  field("skipped_steps", m.skipped_steps);
  if (m.loss_scale > 0) {
    field("loss_scale", {{"scale", m.loss_scale}, {"good_steps", m.good_steps}});
  }
  field("seed", m.seed);
  field("config_hash", m.config_hash);
  field("config", ordered_json::parse(m.config_json));
  field("world", {{"size", m.world_size}, {"layout", m.layout}});
  if (!m.data_hash.empty()) field("data_hash", m.data_hash);
  field("versions", m.versions.empty() ? ordered_json::object() : ordered_json(m.versions));
  field("files", m.file_bytes.empty() ? ordered_json::object() : ordered_json(m.file_bytes));
  body += "\"tensors\":[";
  for (std::size_t i = 0; i < m.tensors.size(); ++i) {
    body += (i == 0 ? "\n" : ",\n") + to_json(m.tensors[i]).dump();
  }
  body += "\n]}\n";
  return std::string(kBeforeSum) + to_hex(checksum(body)) + std::string(kAfterSum) + body;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  std::optional<std::uint64_t> sum;
  if (text.size() > kFirstLine && text.starts_with(kBeforeSum) &&
      text.substr(0, kFirstLine).ends_with(kAfterSum)) {
    sum = from_hex(text.substr(kBeforeSum.size(), kChecksumDigits));
  }
  if (!sum) {
    throw BadData({"LS-5003", where, "not a manifest: its first line holds no checksum",
                   "name a folder step-N that lockstep wrote"});
  }
  if (*sum != checksum(text.substr(kFirstLine))) {
    throw BadData({"LS-5005", where, "the manifest does not match its own checksum",
                   "restore the file from a copy, or resume from an older checkpoint"});
  }
  return parse_manifest_unsummed(text, where);
}

Manifest parse_manifest_unsummed(std::string_view text, const std::string& where) {
  const json document = parse_strict_json(text, kMaxDepth, where);
  const StrictJson root(document, "", where);
  check_version(root, where);
  Manifest m;
  m.step = root["step"].natural();
  m.epoch = root["position"]["epoch"].natural();
  m.sample = root["position"]["sample"].natural();
  m.skipped_steps = root["skipped_steps"].natural();
  read_loss_scale(root, m);
  m.seed = root["seed"].integer();
  m.config_hash = root["config_hash"].text();
  (void)root["config"].object();
  m.config_json = root["config"].raw().dump();
  m.world_size = root["world"]["size"].natural();
  m.layout = root["world"]["layout"].text();
  if (root.object().contains("data_hash")) m.data_hash = root["data_hash"].text();
  for (const auto& [name, value] : root["versions"].object()) {
    m.versions[name] = StrictJson(value, "versions." + name, where).text();
  }
  m.file_bytes = parse_files(root["files"], where);
  for (const StrictJson& tensor : root["tensors"].items()) {
    m.tensors.push_back(parse_tensor(tensor, m.file_bytes));
  }
  check_names(m, where);
  return m;
}

Manifest read_manifest(const std::filesystem::path& step_dir) {
  const auto path = step_dir / kManifestName;
  return parse_manifest(read_text_file(path, kMaxManifestBytes), path.string());
}

}  // namespace lockstep::checkpoint
