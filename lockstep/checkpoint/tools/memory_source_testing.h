// A checkpoint that is nowhere but in memory. For tests.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// The elements' bytes.
template <typename Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

class MemorySource final : public TensorSource {
 public:
  void add(StoredTensor tensor, std::vector<std::byte> bytes) {
    LOCKSTEP_CHECK(tensor.bytes() == bytes.size(), "wrong size of " + tensor.name);
    tensors_.push_back(std::move(tensor));
    bytes_.push_back(std::move(bytes));
  }
  /// Reading the tensor fails from that byte on.
  void fail_at(std::size_t index, std::uint64_t byte) { broken_[index] = byte; }

  [[nodiscard]] std::string_view format() const override { return "memory"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override {
    const std::vector<std::byte>& bytes = bytes_.at(index);
    LOCKSTEP_CHECK(begin <= bytes.size() && out.size() <= bytes.size() - begin, "beyond the end");
    const auto broken = broken_.find(index);
    if (broken != broken_.end() && begin + out.size() > broken->second) {
      throw BadData({"LS-5004", "memory", "cut", "none"});
    }
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
  }

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> bytes_;
  std::map<std::size_t, std::uint64_t> broken_;
};

}  // namespace lockstep::checkpoint
