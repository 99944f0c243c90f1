// Tensors that are joined of runs of tensors in several files of torch.save.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// A file of torch.save and what is in it.
struct OpenTorchFile {
  /// \throws as TorchArchive.
  OpenTorchFile(const std::filesystem::path& path, const PickleGlobals& more)
      : file(path), archive(file, more) {}

  InputFile file;
  TorchArchive archive;
};

/// Owns the files. Thread-safe once all is added.
class JoinedTensors {
 public:
  /// A run of elements of a whole().
  struct Run {
    std::uint32_t whole = 0;
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
  };

  /// \throws as TorchArchive. The reference stays valid.
  const OpenTorchFile& open(const std::filesystem::path& path, const PickleGlobals& more) {
    return files_.emplace_back(path, more);
  }

  /// Makes a view that `file` gave known. \returns its number.
  std::uint32_t add_whole(const OpenTorchFile& file, TensorView view);
  [[nodiscard]] const TensorView& view(std::uint32_t whole) const { return wholes_[whole].view; }
  [[nodiscard]] std::uint64_t elements(std::uint32_t whole) const;
  [[nodiscard]] const OpenTorchFile& file(std::uint32_t whole) const {
    return *wholes_[whole].file;
  }

  /// \pre the runs have as many elements as the tensor, lie within their wholes and are of its
  /// dtype. \throws BadData (LS-5020) when its name is taken; \param where for that message.
  void add(StoredTensor tensor, std::vector<Run> runs, const std::string& where);
  /// Another name of a tensor. \returns false: there is none of that name. \throws as add().
  bool add_alias(const std::string& alias, const std::string& name, const std::string& where);
  [[nodiscard]] bool has(const std::string& name) const { return places_.count(name) > 0; }

  [[nodiscard]] std::span<const StoredTensor> tensors() const { return tensors_; }
  /// Of all files.
  [[nodiscard]] std::uint64_t file_bytes() const;
  /// As TensorSource::read().
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct Whole {
    const OpenTorchFile* file;
    TensorView view;
  };
  void take_name(const std::string& name, std::size_t index, const std::string& where);

  std::deque<OpenTorchFile> files_;
  std::vector<Whole> wholes_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<Run>> runs_;         // of tensors_
  std::map<std::string, std::size_t> places_;  // in tensors_, of names and aliases
};

/// Elements of a shape whose tensor_bytes() has a value.
[[nodiscard]] std::uint64_t elements_of(const Shape& shape);

}  // namespace lockstep::checkpoint
