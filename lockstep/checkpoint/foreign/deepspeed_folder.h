// A checkpoint folder of DeepSpeed with ZeRO 1, 2 or 3, as whole tensors
// (docs/formats/foreign.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/deepspeed_parts.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// The weights are those that the optimizer keeps (fp32) under the names of the model, "parameter";
/// beside each stand its moments, "<name>/exp_avg", "<name>/exp_avg_sq", "optimizer". Buffers and
/// frozen parameters keep the type in which they are stored. Parameters that are tied are aliases.
class DeepSpeedSource final : public TensorSource {
 public:
  /// Reads the pickles of all files, not their tensors. \param dir a folder with `latest`, or the
  /// folder of one checkpoint. \throws BadData: LS-5020 for what does not fit together, naming file
  /// and tensor; as find_deepspeed_files() and TorchArchive.
  explicit DeepSpeedSource(const std::filesystem::path& dir);

  [[nodiscard]] std::string_view format() const override { return "deepspeed"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return parts_.tensors(); }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override {
    parts_.read(index, begin, out);
  }
  [[nodiscard]] std::span<const SkippedEntry> skipped() const override { return skipped_; }
  /// "zero_stage", "world_size"; where the files say them "ds_version", "step", and per group of
  /// the optimizer "optimizer.<group>.step".
  [[nodiscard]] std::map<std::string, std::string> facts() const override { return facts_; }

 private:
  friend class DeepSpeedBuilder;
  JoinedTensors parts_;
  std::vector<SkippedEntry> skipped_;
  std::map<std::string, std::string> facts_;
};

}  // namespace lockstep::checkpoint
