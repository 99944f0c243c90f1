// A checkpoint in memory, for tests of this folder, and reading one whole.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

class MemorySource : public TensorSource {
 public:
  /// Bytes are random, the same for the same name.
  MemorySource& add(StoredTensor tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    Rng rng(std::hash<std::string>{}(tensor.name));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next_u64() >> 56U);
    return add(std::move(tensor), std::move(bytes));
  }
  MemorySource& add(const std::string& name, Shape shape, const std::string& dtype = "F32") {
    return add({name, dtype, std::move(shape)});
  }
  MemorySource& add(StoredTensor tensor, std::vector<std::byte> bytes) {
    LOCKSTEP_CHECK(bytes.size() == tensor.bytes(), "bytes of another shape");
    tensors_.push_back(std::move(tensor));
    bytes_.push_back(std::move(bytes));
    return *this;
  }
  void remove(const std::string& name) {
    const auto at = std::find_if(tensors_.begin(), tensors_.end(),
                                 [&](const StoredTensor& tensor) { return tensor.name == name; });
    LOCKSTEP_CHECK(at != tensors_.end(), "no tensor " + name);
    bytes_.erase(bytes_.begin() + (at - tensors_.begin()));
    tensors_.erase(at);
  }

  [[nodiscard]] std::string_view format() const override { return "memory"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override {
    const std::vector<std::byte>& bytes = bytes_.at(index);
    LOCKSTEP_CHECK(begin <= bytes.size() && out.size() <= bytes.size() - begin, "a read outside");
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + begin, out.size());
    bytes_read_ += out.size();
  }
  [[nodiscard]] std::span<const SkippedEntry> skipped() const override { return skipped_; }
  [[nodiscard]] std::map<std::string, std::string> facts() const override {
    return {{"step", "7"}};
  }
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<SkippedEntry> skipped_{{"rng_state", "no tensor"}};
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

struct WholeTensor {
  std::string dtype;
  Shape shape;
  std::vector<std::byte> bytes;

  friend bool operator==(const WholeTensor&, const WholeTensor&) = default;
};

/// All tensors by name. \param chunk_bytes of one read.
inline std::map<std::string, WholeTensor> read_all(const TensorSource& source,
                                                   std::size_t chunk_bytes = 1U << 20) {
  std::map<std::string, WholeTensor> all;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    std::vector<std::byte> bytes(tensor.bytes());
    for (std::size_t begin = 0; begin < bytes.size(); begin += chunk_bytes) {
      const std::size_t count = std::min(chunk_bytes, bytes.size() - begin);
      source.read(i, begin, {bytes.data() + begin, count});
    }
    all[tensor.name] = {tensor.dtype, tensor.shape, std::move(bytes)};
  }
  return all;
}

/// "name DTYPE [shape]" of each tensor, in order.
inline std::vector<std::string> lines_of(const TensorSource& source) {
  std::vector<std::string> lines;
  for (const StoredTensor& tensor : source.tensors()) {
    lines.push_back(tensor.name + " " + tensor.dtype + " " + to_text(tensor.shape));
  }
  return lines;
}

/// Elements of a matrix of F32, turned over by hand.
inline std::vector<std::byte> turned_over(const WholeTensor& matrix) {
  constexpr std::size_t kBytes = 4;
  const auto rows = static_cast<std::size_t>(matrix.shape.at(0));
  const auto columns = static_cast<std::size_t>(matrix.shape.at(1));
  std::vector<std::byte> turned(matrix.bytes.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      std::memcpy(turned.data() + (column * rows + row) * kBytes,
                  matrix.bytes.data() + (row * columns + column) * kBytes, kBytes);
    }
  }
  return turned;
}

}  // namespace lockstep::checkpoint
