// *.safetensors.index.json: which shard holds which tensor, as Hugging Face's library writes it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";

struct SafetensorsIndex {
  struct Entry {
    std::string tensor;
    std::uint32_t file = 0;  // in files
  };

  std::vector<std::string> files;  // plain names in the index's folder, ascending
  std::vector<Entry> entries;      // by tensor, each once
  std::uint64_t total_bytes = 0;   // of all tensors; 0 when the index does not say
};

/// \throws BadData (LS-5004): JSON faults, no weight_map, a shard that is no plain file name.
[[nodiscard]] SafetensorsIndex parse_safetensors_index(std::string_view text,
                                                       const std::string& where);

/// The document; the same bytes as Python's json.dumps(index, indent=2, sort_keys=True), a line
/// end behind. \pre entries as parse_safetensors_index() leaves them.
[[nodiscard]] std::string write_safetensors_index(const SafetensorsIndex& index);

/// "model-00002-of-00005.safetensors" for shard 2 of 5 (from 1).
[[nodiscard]] std::string shard_name(const std::string& stem, std::uint64_t shard,
                                     std::uint64_t shards);

/// What shard_name() was called with; shards is 0 when `file_name` is none of its names.
struct ShardName {
  std::string stem;
  std::uint64_t shard = 0;
  std::uint64_t shards = 0;
};
[[nodiscard]] ShardName parse_shard_name(std::string_view file_name);

}  // namespace lockstep::checkpoint
