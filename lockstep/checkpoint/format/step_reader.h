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
  std::filesystem::path step_dir_;
  Manifest manifest_;
  std::map<std::string, InputFile> files_;
};

/// Every fault of the checkpoint in `step_dir`: reads all of it.
[[nodiscard]] std::vector<Problem> verify_step(const std::filesystem::path& step_dir);

}  // namespace lockstep::checkpoint
