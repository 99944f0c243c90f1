// A folder of torch.distributed.checkpoint as whole tensors, whatever chunks they are stored in
// (docs/formats/foreign.md).
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/dcp_metadata.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// Two names of the same items are aliases.
class DcpSource final : public TensorSource {
 public:
  /// Reads `.metadata` and the header of each item. \throws BadData: LS-5020 naming file and tensor
  /// when they do not fit together; as read_dcp_metadata() and TorchArchive.
  explicit DcpSource(const std::filesystem::path& dir);

  [[nodiscard]] std::string_view format() const override { return "dcp"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override;
  [[nodiscard]] std::span<const SkippedEntry> skipped() const override { return skipped_; }
  /// "dcp_version", where the folder says it.
  [[nodiscard]] std::map<std::string, std::string> facts() const override { return facts_; }

 private:
  struct Chunk {
    Box box;
    const TorchArchive* archive;
    TensorView view;
  };
  void add(const DcpTensor& tensor);
  Chunk open_chunk(const DcpTensor& tensor, const DcpChunk& chunk);
  const InputFile& file(const DcpTensor& tensor, const DcpItem& item);

  std::filesystem::path dir_;
  std::map<std::string, InputFile> files_;
  std::map<DcpItem, TorchArchive> archives_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<Chunk>> chunks_;  // of tensors_
  std::vector<SkippedEntry> skipped_;
  std::map<std::string, std::string> facts_;
};

}  // namespace lockstep::checkpoint
