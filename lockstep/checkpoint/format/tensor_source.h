// What every checkpoint format looks like from outside: named tensors whose bytes are read by
// range, and a writer that takes them one after the other. One reader and one writer a format;
// checkpoint/tools/formats.cpp has the table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/shape.h"

namespace lockstep::checkpoint {

/// A tensor as it is found in a file or folder; its elements may lie anywhere in it.
struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I64", ...: element_bits()
  Shape shape;
  std::string kind{};  // "parameter", "buffer", "optimizer"; empty = the format does not say
  std::vector<std::string> aliases{};  // other names of the same storage

  /// \pre tensor_bytes(dtype, shape) has a value; readers check that.
  [[nodiscard]] std::uint64_t bytes() const { return *tensor_bytes(dtype, shape); }
};

/// Something that holds no tensor and is left out, with why: "rng_state: numpy array".
struct SkippedEntry {
  std::string name;
  std::string why;
};

/// An open checkpoint. Thread-safe: reads are by position.
class TensorSource {
 public:
  TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  /// "safetensors", "lockstep", "torch", "dcp", "deepspeed".
  [[nodiscard]] virtual std::string_view format() const = 0;
  [[nodiscard]] virtual std::span<const StoredTensor> tensors() const = 0;
  /// Fills `out` with the bytes of tensors()[index] from `begin` on, elements little-endian and in
  /// row-major order whatever the file's strides. \pre begin + out.size() <= bytes().
  /// \throws BadData naming file, tensor and offset; EnvironmentFault (LS-5002).
  virtual void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const = 0;
  /// What is there besides tensors and is not read.
  [[nodiscard]] virtual std::span<const SkippedEntry> skipped() const { return {}; }
  /// Facts of the whole: "step" -> "1000". Also what safetensors has under __metadata__.
  [[nodiscard]] virtual std::map<std::string, std::string> facts() const { return {}; }
};

/// A checkpoint being written. Usage: for each of order(), write() until its bytes are complete;
/// then commit(). Without commit() nothing is left.
class TensorSink {
 public:
  TensorSink() = default;
  TensorSink(const TensorSink&) = delete;
  TensorSink& operator=(const TensorSink&) = delete;
  virtual ~TensorSink() = default;

  /// All tensors, as given to the writer, in the order in which it takes their bytes.
  [[nodiscard]] virtual std::span<const StoredTensor> order() const = 0;
  /// The next bytes of the tensor at hand, any number of them up to its end.
  /// \throws std::filesystem::filesystem_error, also commit().
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void commit() = 0;
};

}  // namespace lockstep::checkpoint
