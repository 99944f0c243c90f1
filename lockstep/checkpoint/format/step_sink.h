// Writes a checkpoint as one of our folders step-N, cut for any number of ranks: without the ranks.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/format/block_sums.h"
#include "lockstep/checkpoint/format/boxes.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

inline constexpr int kMostSinkRanks = static_cast<int>(kMaxBoxes);  // pieces that a tensor may have

struct StepSinkOptions {
  /// Files that weights, and optimizer state, are cut into: what as many ranks of data parallelism
  /// would write. From 1 to kMostSinkRanks.
  int ranks = 1;
  /// Step, position, seed, configuration and versions; its tensors, files and world are not used.
  Manifest described{};
};

/// Tensors are cut at whole rows into files of about equal size (share_out.h), those of kind
/// "optimizer" apart from the others; a tensor of no kind becomes a "parameter". One file is open
/// at a time.
class StepSink final : public TensorSink {
 public:
  /// Makes `checkpoints_dir` and a draft in it. \param tensors each name once.
  /// \throws BadData (LS-5004) for names that the format cannot hold;
  /// std::filesystem::filesystem_error, also write() and commit().
  StepSink(std::filesystem::path checkpoints_dir, std::vector<StoredTensor> tensors,
           StepSinkOptions options = {});

  [[nodiscard]] std::span<const StoredTensor> order() const override { return order_; }
  void write(std::span<const std::byte> bytes) override;
  /// The manifest, then the folder's name. Takes the place of an older checkpoint of that step.
  void commit() override;

  /// What commit() leaves: checkpoints_dir/step-N.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct File {
    std::string name;
    std::vector<TensorInfo> infos;  // in file order
  };
  /// Rows of a tensor in one file.
  struct Part {
    std::size_t tensor = 0;  // of order_
    Box box;
    std::size_t file = 0;  // of files_
    std::size_t info = 0;  // of its infos
  };

  void cut(std::size_t first, std::size_t end, int ranks);
  void begin_next();
  void open_file(std::size_t file);
  void close_file();
  void end_part();

  std::vector<StoredTensor> order_;
  std::vector<File> files_;
  std::vector<Part> parts_;  // in the order of their bytes
  Manifest manifest_;
  StepDraft draft_;
  std::filesystem::path path_;

  std::unique_ptr<AtomicFile> open_;
  std::size_t open_file_ = 0;     // of files_, while open_ is set
  std::uint64_t data_start_ = 0;  // of that file
  std::size_t next_ = 0;          // of parts_
  std::uint64_t left_ = 0;        // bytes of that part
  std::optional<BlockSums> sums_{std::in_place};
};

}  // namespace lockstep::checkpoint
