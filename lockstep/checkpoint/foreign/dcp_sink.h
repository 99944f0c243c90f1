// Writes a folder that torch.distributed.checkpoint (PyTorch 2.4 and later) loads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/foreign/dcp_metadata.h"
#include "lockstep/checkpoint/foreign/zip_records.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// A flat state dict of name -> tensor in one file, `__0_0.distcp`, each tensor one chunk; aliases
/// share its item. `.metadata` comes last and makes the folder a checkpoint.
class DcpSink final : public TensorSink {
 public:
  /// Makes the folder when it is not there. \throws UsageError (LS-5012) naming each tensor whose
  /// dtype PyTorch has no type for, or a name that comes twice; (LS-5020) when the folder holds a
  /// checkpoint already; std::filesystem::filesystem_error.
  DcpSink(const std::filesystem::path& dir, std::vector<StoredTensor> tensors);

  [[nodiscard]] std::span<const StoredTensor> order() const override { return tensors_; }
  void write(std::span<const std::byte> bytes) override;
  void commit() override;

 private:
  void begin_item();
  void end_item();
  void begin_entry(const std::string& name, std::uint64_t bytes);
  void put(std::string_view bytes);
  void put_entry(const std::string& name, std::string_view text);
  void put_data(std::span<const std::byte> bytes);

  std::filesystem::path dir_;
  std::vector<StoredTensor> tensors_;
  std::vector<DcpItem> items_;  // of tensors_, as far as they have begun
  AtomicFile file_;
  std::uint64_t position_ = 0;        // in the file
  std::uint64_t left_ = 0;            // bytes of the entry at hand
  std::vector<zip::Record> records_;  // of the item at hand
};

/// The pickle of `.metadata` for these tensors; item i is where tensor i lies.
/// \pre PyTorch has a type for each.
[[nodiscard]] std::string dcp_metadata_pickle(std::span<const StoredTensor> tensors,
                                              std::span<const DcpItem> items);

}  // namespace lockstep::checkpoint
