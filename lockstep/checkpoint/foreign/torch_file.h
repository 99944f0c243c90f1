// Files of torch.save (.pt, .pth, .bin, an item of a .distcp file): a zip archive with one pickle
// and the storages of its tensors (docs/formats/foreign.md). The pickle is read by a machine that
// executes nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/foreign/pickle_machine.h"
#include "lockstep/checkpoint/foreign/zip_archive.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// What files of torch.save may name: tensors and what surrounds them, plain containers, and the
/// classes that are commonly beside them and are left out.
[[nodiscard]] const PickleGlobals& torch_globals();

/// A tensor of a file: a view of one storage.
struct TensorView {
  std::string storage;  // key: its bytes are the entry data/<key>
  std::string dtype;    // "F32", ...: element_bits()
  Shape shape;
  Shape stride;              // elements, none negative
  std::uint64_t offset = 0;  // elements from the start of the storage
  bool parameter = false;    // an nn.Parameter

  friend bool operator==(const TensorView&, const TensorView&) = default;
};

/// One file of torch.save, opened: what it holds and the bytes of its tensors. Thread-safe.
class TorchArchive {
 public:
  /// \param file must outlive this; the archive fills `length` bytes of it from `begin` on.
  /// \param more globals beside torch_globals().
  /// \throws BadData: LS-5012 when it is not such a file, is cut or of big-endian bytes, LS-5013
  /// when its pickle names what neither list has; EnvironmentFault (LS-5002).
  TorchArchive(const InputFile& file, std::uint64_t begin, std::uint64_t length,
               const PickleGlobals& more = {});
  explicit TorchArchive(const InputFile& file, const PickleGlobals& more = {})
      : TorchArchive(file, 0, file.size_bytes(), more) {}

  /// What was saved.
  [[nodiscard]] const PickleValue& root() const { return tree_.root(); }

  /// The tensor that `value` of this file's tree is; nothing when it is none, or one of a kind that
  /// cannot be read (why_no_tensor()). \param name for messages. \throws BadData (LS-5012) when its
  /// description is damaged or leaves its storage.
  [[nodiscard]] std::optional<TensorView> tensor_of(const PickleValue& value,
                                                    const std::string& name = "a tensor") const;

  /// Why a value that is a tensor or storage in PyTorch is none here: "a sparse tensor"; empty for
  /// other values.
  [[nodiscard]] std::string why_no_tensor(const PickleValue& value) const;

  /// Fills `out` with the tensor's bytes from `begin` on, in row-major order.
  /// \pre view from tensor_of(), begin + out.size() <= its bytes. \throws as ZipArchive::read().
  void read(const TensorView& view, std::uint64_t begin, std::span<std::byte> out) const;

  [[nodiscard]] const ZipArchive& zip() const { return zip_; }

 private:
  [[nodiscard]] const ZipEntry* storage(std::string_view key) const;

  ZipArchive zip_;
  std::string folder_;  // "archive/"
  PickleTree tree_;
};

/// A .pt file as named tensors. Nested dicts and lists give dotted names: "model.blocks.0.weight",
/// "optimizer.state.0.exp_avg". Two names of one view are aliases. Numbers, texts and lists of them
/// are facts(), at most kMaxTorchFacts.
class TorchFileSource : public TensorSource {
 public:
  /// \throws as TorchArchive; BadData (LS-5012) for two tensors of one name, or when the tensors
  /// claim 1 GB plus 1000 times the bytes of the file: views that repeat a storage without end.
  explicit TorchFileSource(const std::filesystem::path& path, const PickleGlobals& more = {});

  [[nodiscard]] std::string_view format() const override { return "torch"; }
  [[nodiscard]] std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const override;
  [[nodiscard]] std::span<const SkippedEntry> skipped() const override { return skipped_; }
  [[nodiscard]] std::map<std::string, std::string> facts() const override { return facts_; }
  [[nodiscard]] const TorchArchive& archive() const { return archive_; }

 private:
  InputFile file_;
  TorchArchive archive_;
  std::vector<StoredTensor> tensors_;
  std::vector<TensorView> views_;  // of tensors_
  std::vector<SkippedEntry> skipped_;
  std::map<std::string, std::string> facts_;
};

inline constexpr std::size_t kMaxTorchFacts = 256;

}  // namespace lockstep::checkpoint
