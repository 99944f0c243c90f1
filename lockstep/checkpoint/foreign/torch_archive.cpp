#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/not_torch.h"
#include "lockstep/checkpoint/foreign/strided_read.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/foreign/torch_names.h"
#include "lockstep/checkpoint/foreign/torch_tensor.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::uint64_t kMaxMarkBytes = 64;

/// "archive/": the one folder of the archive that has a data.pkl.
std::string folder_of(const ZipArchive& zip) {
  std::string folder;
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickle) continue;
    if (!folder.empty()) {
      throw_not_torch(zip.where(), "more than one data.pkl, which torch.save does not write");
    }
    folder = entry.name.substr(0, slash + 1);
  }
  if (folder.empty()) {
    throw_not_torch(zip.where(), "a zip archive, but not a file of torch.save: it has no data.pkl");
  }
  if (zip.find(folder + "constants.pkl") != nullptr) {
    throw_not_torch(zip.where(),
                    "a TorchScript program, which is code: where it was made, save the "
                    "model's state_dict() with torch.save");
  }
  return folder;
}

void check_byte_order(const ZipArchive& zip, const std::string& folder) {
  const ZipEntry* entry = zip.find(folder + "byteorder");
  if (entry == nullptr) return;  // before PyTorch 2.1: little
  const std::string order = zip.read_all(*entry, kMaxMarkBytes);
  if (order == "little") return;
  throw_not_torch(zip.where(), order == "big"
                                   ? "its elements are big-endian: load it on a little-endian "
                                     "machine and save it again there"
                                   : "entry " + entry->name + " is neither little nor big");
}

PickleTree tree_of(const ZipArchive& zip, const std::string& folder, const PickleGlobals& more) {
  check_byte_order(zip, folder);
  const ZipEntry& entry = *zip.find(folder + std::string(kPickle));
  std::string pickle = zip.read_all(entry, kMaxPickleBytes);
  const bool has_more = !more.allowed.empty() || !more.skipped.empty();
  // A folder of DCP has thousands of archives: no copy of the names for each.
  return has_more ? read_pickle(std::move(pickle), torch_globals() + more, zip.where())
                  : read_pickle(std::move(pickle), torch_globals(), zip.where());
}

StridedView strides_of(const TensorView& view) {
  return {view.shape, view.stride, view.offset,
          static_cast<std::uint64_t>(element_bits(view.dtype)) / 8};
}

}  // namespace

TorchArchive::TorchArchive(const InputFile& file, std::uint64_t begin, std::uint64_t length,
                           const PickleGlobals& more)
    : zip_(file, begin, length), folder_(folder_of(zip_)), tree_(tree_of(zip_, folder_, more)) {}

const ZipEntry* TorchArchive::storage(std::string_view key) const {
  return zip_.find(folder_ + "data/" + std::string(key));
}

std::optional<TensorView> TorchArchive::tensor_of(const PickleValue& value,
                                                  const std::string& name) const {
  const auto fail = [&](const std::string& what) {
    throw_not_torch(zip_.where(), name + ": " + what);
  };
  const auto found = parse_torch_tensor(value, zip_.where(), name);
  if (!found || !found->why.empty()) return std::nullopt;
  const TensorView& view = found->view;
  const ZipEntry* entry = storage(view.storage);
  if (entry == nullptr) fail("its storage " + view.storage + " is not in the archive");
  zip_.read(*entry, 0, {});  // refuses a compressed one
  if (found->storage_bytes > entry->bytes) {
    fail("its storage " + view.storage + " should have " +
         format_count(static_cast<std::int64_t>(found->storage_bytes)) + " bytes, it has " +
         format_count(static_cast<std::int64_t>(entry->bytes)));
  }
  const StridedView strides = strides_of(view);
  const auto reached = elements_reached(strides);
  if (!reached || *reached > found->storage_bytes / strides.element_bytes) {
    fail(to_text(view.shape) + " with strides " + to_text(view.stride) + " from element " +
         std::to_string(view.offset) + " leaves its storage of " +
         format_count(static_cast<std::int64_t>(found->storage_bytes)) + " bytes");
  }
  if (!tensor_bytes(view.dtype, view.shape)) fail(to_text(view.shape) + " has no size in bytes");
  return view;
}

std::string TorchArchive::why_no_tensor(const PickleValue& value) const {
  if (value.is(PickleKind::persistent)) return "a storage that no tensor is made of";
  const auto found = parse_torch_tensor(value, zip_.where(), "a tensor");
  return found ? found->why : std::string();
}

void TorchArchive::read(const TensorView& view, std::uint64_t begin,
                        std::span<std::byte> out) const {
  const ZipEntry* entry = storage(view.storage);
  LOCKSTEP_CHECK(entry != nullptr, "a view of another archive");
  const FetchBytes fetch = [&](std::uint64_t at, std::span<std::byte> part) {
    zip_.read(*entry, at, part);
  };
  read_strided(strides_of(view), entry->bytes, fetch, begin, out);
}

}  // namespace lockstep::checkpoint
