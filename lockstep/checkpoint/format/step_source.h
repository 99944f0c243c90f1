// One of our own folders step-N as a checkpoint to read: whole tensors, whatever pieces they are
// stored in.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/step_reader.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// Tensors stand in the order of the manifest, with their kinds and aliases. Every block of a piece
/// that is read is verified, also where only a part of it is wanted.
class StepSource final : public TensorSource {
 public:
  /// Compares manifest and headers. \throws as StepReader; BadData (LS-5004) also when a tensor of
  /// elements below one byte has several pieces.
  explicit StepSource(const std::filesystem::path& step_dir);

  [[nodiscard]] std::string_view format() const override { return "lockstep"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  /// \throws also BadData (LS-5005), when a block is not what was written.
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override;
  /// "step", "epoch", "sample", "skipped_steps", "seed", "config_hash", "world_size", "layout" and
  /// "version.<program>".
  [[nodiscard]] std::map<std::string, std::string> facts() const override;

  [[nodiscard]] const Manifest& manifest() const { return reader_.manifest(); }

  /// Every block of one tensor, or of all, that is not what was written (LS-5005), and files that
  /// cannot be read. Takes memory for one block.
  [[nodiscard]] std::vector<Problem> verify(std::size_t index) const;
  [[nodiscard]] std::vector<Problem> verify() const;

 private:
  StepReader reader_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace lockstep::checkpoint
