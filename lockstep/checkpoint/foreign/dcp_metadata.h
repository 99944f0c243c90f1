// The file `.metadata` of a folder of torch.distributed.checkpoint: what tensors there are, in what
// chunks, and where each lies.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/pickle_machine.h"
#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

inline constexpr const char* kDcpMetadataFile = ".metadata";

/// A range of one of the folder's files: a whole file of torch.save.
struct DcpItem {
  std::string file;  // a name in the folder, no path
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend auto operator<=>(const DcpItem&, const DcpItem&) = default;
};

struct DcpChunk {
  Box box;
  DcpItem item;
};

struct DcpTensor {
  std::string name;
  std::string dtype;  // "F32", ...
  Shape shape;
  std::vector<DcpChunk> chunks;  // cover the shape exactly once
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;
  std::vector<SkippedEntry> skipped;
  std::string version;  // of the format; empty before PyTorch 2.10
};

/// What `.metadata` may name; nothing else.
[[nodiscard]] const PickleGlobals& dcp_globals();

/// Reads the pickle without executing anything. Items are either the same or apart, so what they
/// hold is no more than the files. \param where file, for messages. \throws BadData: LS-5020,
/// naming the tensor, when it does not fit together; as read_pickle().
[[nodiscard]] DcpMetadata parse_dcp_metadata(std::string pickle, const std::string& where);

/// The file of a folder. \throws as parse_dcp_metadata() and InputFile.
[[nodiscard]] DcpMetadata read_dcp_metadata(const std::filesystem::path& dir);

}  // namespace lockstep::checkpoint
