// Writes one safetensors file tensor by tensor and notes where each lies.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/safetensors.h"

namespace lockstep::checkpoint {

/// Usage: for each of tensors(), in order, write(its bytes); then commit().
class TensorFile {
 public:
  /// Writes the header. \param tensors name, dtype and shape of each, in any order.
  /// \throws std::filesystem::filesystem_error, also from write() and commit().
  TensorFile(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
             const std::map<std::string, std::string>& metadata);

  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// Writes the next tensor. \param bytes all of it, elements in logical order.
  /// \returns it as one piece that is the whole tensor.
  Piece write(std::span<const std::byte> bytes);

  /// Flushes and gives the file its name. \returns its size in bytes.
  std::uint64_t commit();

 private:
  std::string name_;
  std::vector<TensorInfo> tensors_;
  AtomicFile file_;
  std::uint64_t data_start_ = 0;
  std::size_t next_ = 0;
};

}  // namespace lockstep::checkpoint
