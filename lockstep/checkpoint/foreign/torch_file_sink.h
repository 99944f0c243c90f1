// Writes a flat state dict that torch.load(weights_only=True) reads.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/zip_writer.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// OrderedDict of name -> contiguous CPU tensor, in the order given; aliases share the storage of
/// their tensor and follow it.
class TorchFileSink : public TensorSink {
 public:
  /// \throws UsageError (LS-5012) naming each tensor whose dtype PyTorch has no type for, or a name
  /// that comes twice; std::filesystem::filesystem_error.
  TorchFileSink(const std::filesystem::path& path, std::vector<StoredTensor> tensors);

  [[nodiscard]] std::span<const StoredTensor> order() const override { return tensors_; }
  void write(std::span<const std::byte> bytes) override;
  void commit() override;

 private:
  void begin_next();

  std::vector<StoredTensor> tensors_;
  ZipWriter zip_;
  std::string id_;         // of the archive, its first half
  std::size_t begun_ = 0;  // entries, of tensors_
};

}  // namespace lockstep::checkpoint
