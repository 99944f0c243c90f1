// A checkpoint under other names: tensors put together from ranges of another source's tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// Bytes of one tensor of the source that follow each other, as they are or turned over.
struct Part {
  std::size_t source = 0;  // index into its tensors()
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  /// > 0: these bytes are a matrix of that many columns, of which the rows become columns.
  std::int64_t turned_columns = 0;
};

/// A tensor as it will look: its bytes are those of its parts, one behind the other. Without parts
/// it is all zeros.
struct NamedView {
  StoredTensor tensor;
  std::vector<Part> parts;
};

/// What a source looks like under other names.
struct Renaming {
  std::vector<NamedView> views;
  std::vector<SkippedEntry> left_out;
  std::vector<std::string> notes;  // for people, one line each
};

/// Reading a turned matrix takes as much memory as that matrix, until its end has been read or
/// another one is begun; such reads wait for each other. Everything else is read straight through.
class RenamedSource : public TensorSource {
 public:
  /// A part outside its tensor, or parts whose bytes are not those of the tensor, are a Bug.
  RenamedSource(std::unique_ptr<const TensorSource> source, Renaming renaming);

  [[nodiscard]] std::string_view format() const override { return source_->format(); }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override;
  /// Those of the source, and what has no place under the new names.
  [[nodiscard]] std::span<const SkippedEntry> skipped() const override { return skipped_; }
  [[nodiscard]] std::map<std::string, std::string> facts() const override {
    return source_->facts();
  }
  [[nodiscard]] std::span<const std::string> notes() const { return notes_; }

 private:
  void read_part(const Part& part, std::uint64_t begin, std::span<std::byte> out) const;
  void read_turned(const Part& part, std::uint64_t begin, std::span<std::byte> out) const;

  std::unique_ptr<const TensorSource> source_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<Part>> parts_;
  std::vector<SkippedEntry> skipped_;
  std::vector<std::string> notes_;
  mutable std::mutex mutex_;
  mutable const Part* held_ = nullptr;  // whose bytes, turned, are in turned_
  mutable std::vector<std::byte> turned_;
};

}  // namespace lockstep::checkpoint
