// A safetensors file, or several that belong together, as a checkpoint to read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// Tensors stand in the order of the files and of the bytes in them. What a writer notes under
/// __metadata__ as "name": "name of the tensor stored" is an alias of that tensor; the rest of
/// __metadata__ are facts (of several files the first to have a key).
class SafetensorsSource final : public TensorSource {
 public:
  /// \param path a file; an index (*.safetensors.index.json); or a folder, of which is taken what
  /// comes first: model.safetensors, the index, all *.safetensors.
  /// Every file is compared with its header, and the files with the index or the numbers in their
  /// names. \throws Error (exit bad_data) with every fault: LS-5003 a file that is not there,
  /// LS-5004 damage, a file that is too short with its sizes and the tensors lost; EnvironmentFault
  /// (LS-5002).
  explicit SafetensorsSource(const std::filesystem::path& path,
                             std::uint64_t max_header_bytes = kMaxHeaderBytes);

  [[nodiscard]] std::string_view format() const override { return "safetensors"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override { return facts_; }

 private:
  struct Place {
    std::uint32_t file;
    std::uint64_t offset;  // bytes from its start
  };

  void take(std::uint32_t file, SafetensorsHeader header);
  void take_metadata(const std::vector<std::map<std::string, std::string>>& metadata);

  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<Place> places_;
  std::map<std::string, std::string> facts_;
};

}  // namespace lockstep::checkpoint
