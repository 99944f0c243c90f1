// manifest.json: what one checkpoint holds and where. Written last: without it a folder is no
// checkpoint (docs/formats/checkpoint.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/block_sums.h"
#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

inline constexpr std::int64_t kFormatVersion = 2;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr std::uint64_t kMaxManifestBytes = 1U << 28;

/// A box of a tensor, stored in one file under the tensor's name.
struct Piece {
  std::string file;  // in the same folder: "model.safetensors"
  Shape offset;      // in the whole tensor
  Shape shape;
  std::uint64_t byte_offset = 0;  // from the start of the file
  std::uint64_t byte_count = 0;
  std::vector<std::uint64_t> checksums;     // XXH3 of each block of those bytes
  std::uint64_t block_bytes = kBlockBytes;  // of version 1: byte_count, one block
};

struct ManifestTensor {
  std::string name;
  std::string kind;   // "parameter", "buffer", "optimizer"
  std::string dtype;  // "F32", "BF16", "I64", ...
  Shape shape;        // of the whole tensor
  std::vector<std::string> aliases;
  std::vector<Piece> pieces;  // cover the tensor without overlap
};

struct Manifest {
  std::int64_t step = 0;   // updates done
  std::int64_t epoch = 0;  // position in the data
  std::int64_t sample = 0;
  std::int64_t skipped_steps = 0;
  double loss_scale = 0;        // of fp16 compute; 0 = there is none
  std::int64_t good_steps = 0;  // since it last changed
  std::int64_t seed = 0;
  std::string config_hash;
  std::string config_json;  // of the run that saved, one JSON object
  std::int64_t world_size = 1;
  std::string layout;                               // "data=2"
  std::string data_hash;                            // of the training data's files; empty = unknown
  std::map<std::string, std::string> versions;      // "lockstep", "libtorch"
  std::map<std::string, std::uint64_t> file_bytes;  // every file but the manifest
  std::vector<ManifestTensor> tensors;
};

/// One piece as a manifest has it: ranks tell each other what they wrote. The inverse takes only
/// what the first gave.
[[nodiscard]] std::string piece_to_json(const Piece& piece);
[[nodiscard]] Piece piece_from_json(const std::string& json);

/// The document, its own checksum in the first line.
[[nodiscard]] std::string write_manifest(const Manifest& manifest);

/// \throws BadData: LS-5004 when damaged, LS-5005 when its checksum differs, LS-5007 when a newer
/// program wrote it. \param where the file, for messages.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& where);

/// As parse_manifest, but the checksum in the first line may be wrong.
[[nodiscard]] Manifest parse_manifest_unsummed(std::string_view text, const std::string& where);

/// \param step_dir the folder step-N. \throws as parse_manifest and InputFile.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& step_dir);

}  // namespace lockstep::checkpoint
