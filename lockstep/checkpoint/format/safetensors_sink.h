// Writes a checkpoint as a safetensors file, or as shards with an index, as Hugging Face's library
// names and fills them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/atomic_file.h"
#include "lockstep/checkpoint/format/safetensors_index.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

struct SafetensorsSinkOptions {
  /// Most data bytes of a shard; a larger tensor has one for itself. 0 = all in one file.
  std::uint64_t max_shard_bytes = 0;
  std::map<std::string, std::string> metadata{{"format", "pt"}};  // of every file
};

/// Shards are filled in the order in which the tensors are given. Inside a file wide elements come
/// first, then names: order(). A tensor is stored once; its aliases stand under __metadata__ as
/// "alias": "name". Every file is open until commit().
class SafetensorsSink final : public TensorSink {
 public:
  /// \param target "DIR/model.safetensors": the file, or with several shards what their names are
  /// made of (DIR/model-00001-of-00003.safetensors, DIR/model.safetensors.index.json). DIR exists.
  /// \param tensors each name once. \throws BadData (LS-5004) for names that the format cannot
  /// hold; std::filesystem::filesystem_error.
  SafetensorsSink(const std::filesystem::path& target, std::vector<StoredTensor> tensors,
                  const SafetensorsSinkOptions& options = {});

  [[nodiscard]] std::span<const StoredTensor> order() const override { return order_; }
  void write(std::span<const std::byte> bytes) override;
  /// Gives the shards their names, then the index.
  void commit() override;

  /// The files that commit() leaves, the index last.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return paths_; }

  /// What a person should know: headers near the limit of readers, aliases that found no place,
  /// older files in the folder that readers may take for these.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  void make_shards(const std::filesystem::path& target, std::vector<StoredTensor> tensors,
                   const SafetensorsSinkOptions& options);
  void start_file(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                  std::map<std::string, std::string> metadata);
  void note_strangers(const std::filesystem::path& target);
  void skip_empty();

  std::vector<StoredTensor> order_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
  std::vector<std::uint32_t> file_of_;  // by place in order_
  std::vector<std::filesystem::path> paths_;
  SafetensorsIndex index_;  // with several shards
  std::vector<std::string> notes_;
  std::size_t next_ = 0;       // in order_
  std::uint64_t written_ = 0;  // bytes of that tensor
};

}  // namespace lockstep::checkpoint
