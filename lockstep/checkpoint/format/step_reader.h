// Reads the tensors of one complete checkpoint and checks every byte on the way.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/manifest.h"

namespace lockstep::checkpoint {

class StepReader {
 public:
  /// Reads the manifest and the header of every file, and compares the two.
  /// \throws BadData (LS-5003 no checkpoint, LS-5004 damaged, LS-5005 manifest's checksum,
  /// LS-5007 newer format), EnvironmentFault (LS-5002).
  explicit StepReader(std::filesystem::path step_dir);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  /// Fills `out` (piece.byte_count bytes). \throws BadData (LS-5005) naming file, tensor and offset
  /// when the bytes do not match their checksum; as InputFile::read().
  void read(const ManifestTensor& tensor, const Piece& piece, std::span<std::byte> out) const;

 private:
  friend class PieceReader;

  /// Block number `block` of the piece, verified. \param out as long as the block.
  void read_block(const ManifestTensor& tensor, const Piece& piece, std::uint64_t block,
                  std::span<std::byte> out) const;

  std::filesystem::path step_dir_;
  Manifest manifest_;
  std::map<std::string, InputFile> files_;
};

/// Reads ranges of one piece and verifies every block that they touch. Ranges that ascend read no
/// block twice.
class PieceReader {
 public:
  /// All of them outlive it.
  PieceReader(const StepReader& reader, const ManifestTensor& tensor, const Piece& piece)
      : reader_(reader), tensor_(tensor), piece_(piece) {}

  /// \param begin bytes from the start of the piece. \throws as StepReader::read().
  void read(std::uint64_t begin, std::span<std::byte> out);

 private:
  const StepReader& reader_;
  const ManifestTensor& tensor_;
  const Piece& piece_;
  std::vector<std::byte> block_{};   // the last one that was wanted in part
  std::uint64_t held_ = UINT64_MAX;  // its number
};

/// Every block of the tensor that is not what was written, and files that cannot be read.
[[nodiscard]] std::vector<Problem> verify_tensor(const StepReader& reader,
                                                 const ManifestTensor& tensor);

/// Every fault of the checkpoint in `step_dir`: reads all of it.
[[nodiscard]] std::vector<Problem> verify_step(const std::filesystem::path& step_dir);

}  // namespace lockstep::checkpoint
