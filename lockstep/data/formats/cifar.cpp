#include "lockstep/data/formats/cifar.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// What cannot be looked at is reported when it is opened.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::int64_t file_bytes(const fs::path& path) {
  std::error_code unreadable;
  const std::uintmax_t size = fs::file_size(path, unreadable);
  return unreadable ? 0 : static_cast<std::int64_t>(size);
}

bool is_compressed(const fs::path& path) { return is_there(path) && open_file(path)->compressed(); }

struct CifarFiles {
  std::vector<std::string> paths;
  CifarKind kind = CifarKind::cifar10;
};

std::int64_t label_bytes(CifarKind kind) { return kind == CifarKind::cifar10 ? 1 : 2; }
std::int64_t record_bytes(CifarKind kind) { return label_bytes(kind) + kCifarPixels; }

// CIFAR-100 puts a coarse label of 20 in front of the fine one.
void check_labels(const ByteSource& source, CifarKind kind, std::span<const std::byte> labels,
                  std::uint64_t offset) {
  constexpr std::array<int, 1> kTen{10};
  constexpr std::array<int, 2> kHundred{20, 100};
  const std::span<const int> limits =
      kind == CifarKind::cifar10 ? std::span<const int>(kTen) : std::span<const int>(kHundred);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const int label = std::to_integer<int>(labels[i]);
    if (label < limits[i]) continue;
    throw BadData(
        {"LS-2004", source.name() + ": offset " + std::to_string(offset + i),
         "label " + std::to_string(label) + ", expected less than " + std::to_string(limits[i]),
         "not a CIFAR file in binary form, or damaged: see docs/formats/cifar.md"});
  }
}

[[noreturn]] void fail_empty(const std::string& path) {
  throw BadData({"LS-2002", path, "the file is empty", "copy or download the file again"});
}

[[noreturn]] void fail_truncated(const ByteSource& source, std::int64_t record, std::size_t got) {
  throw BadData(
      {"LS-2002", source.name() + ": offset " + std::to_string(source.offset_bytes() - got),
       "the last record has " + std::to_string(got) + " bytes, expected " + std::to_string(record) +
           "; the file has " + std::to_string(source.offset_bytes()) + " bytes",
       "copy or download the file again"});
}

// A single file tells its kind by the standard names, else by the record size that divides it.
CifarKind kind_of_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == "train.bin" || name == "test.bin") return CifarKind::cifar100;
  if (is_compressed(path)) return CifarKind::cifar10;  // its size tells nothing
  const std::int64_t size = file_bytes(path);
  const bool fits_only_100 =
      size % record_bytes(CifarKind::cifar10) != 0 && size % record_bytes(CifarKind::cifar100) == 0;
  return fits_only_100 ? CifarKind::cifar100 : CifarKind::cifar10;
}

CifarFiles files_of_folder(const fs::path& folder, CifarPart part) {
  const bool train = part == CifarPart::train;
  const fs::path hundred = folder / (train ? "train.bin" : "test.bin");
  if (is_there(hundred)) return {{hundred.string()}, CifarKind::cifar100};
  if (!train) return {{(folder / "test_batch.bin").string()}, CifarKind::cifar10};
  CifarFiles files;
  for (int i = 1; i <= 5; ++i) {
    files.paths.push_back((folder / ("data_batch_" + std::to_string(i) + ".bin")).string());
  }
  return files;
}

CifarFiles find_files(const std::string& location, CifarPart part) {
  std::error_code unreadable;  // opening the file reports it
  if (fs::is_directory(location, unreadable)) return files_of_folder(location, part);
  CifarFiles files;
  const bool one_file = is_there(location);  // a name may hold a comma
  for (std::size_t at = 0; at <= location.size();) {
    const std::size_t comma = one_file ? std::string::npos : location.find(',', at);
    const std::size_t end = std::min(comma, location.size());
    files.paths.push_back(location.substr(at, end - at));
    at = end + 1;
  }
  files.kind = kind_of_file(files.paths.front());
  return files;
}

std::int64_t count_images(const CifarFiles& files) {
  std::int64_t images = 0;
  for (const std::string& path : files.paths) {
    if (is_compressed(path)) return 0;
    images += file_bytes(path) / record_bytes(files.kind);
  }
  return images;
}

}  // namespace

std::int64_t cifar_classes(CifarKind kind) { return kind == CifarKind::cifar10 ? 10 : 100; }

void parse_cifar(ByteSource& source, CifarKind kind, LabelledImages& images) {
  images.channels = kCifarChannels;
  images.height = images.width = kCifarSide;
  const std::int64_t record = record_bytes(kind);
  std::vector<std::byte> buffer(static_cast<std::size_t>(record));
  for (;;) {
    const std::uint64_t offset = source.offset_bytes();
    const std::size_t got = source.read(buffer);
    if (got == 0) return;
    if (got < buffer.size()) fail_truncated(source, record, got);
    check_labels(source, kind, buffer, offset);
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(buffer.data()) + label_bytes(kind);
    images.labels.push_back(pixels[-1]);  // the fine label stands last
    images.pixels.insert(images.pixels.end(), pixels, pixels + kCifarPixels);
    ++images.count;
  }
}

void check_cifar_files(const std::string& location, CifarPart part) {
  const CifarFiles files = find_files(location, part);
  for (const std::string& path : files.paths) {
    const auto source = open_file(path);
    if (file_bytes(path) == 0) fail_empty(path);
    const std::int64_t record = record_bytes(files.kind);
    const std::int64_t extra = source->compressed() ? 0 : file_bytes(path) % record;
    if (extra == 0) continue;
    throw BadData({"LS-2002", path + ": offset " + std::to_string(file_bytes(path) - extra),
                   "the last record has " + std::to_string(extra) + " bytes, expected " +
                       std::to_string(record),
                   "copy or download the file again"});
  }
}

void write_cifar(const std::string& path, CifarKind kind, const LabelledImages& images) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < images.count; ++i) {
    const std::uint8_t label = images.labels[static_cast<std::size_t>(i)];
    if (kind == CifarKind::cifar100) bytes.push_back(static_cast<std::uint8_t>(label / 5));
    bytes.push_back(label);
    const auto first = images.pixels.begin() + i * kCifarPixels;
    bytes.insert(bytes.end(), first, first + kCifarPixels);
  }
  write_file(path, std::as_bytes(std::span(bytes)));
}

std::int64_t count_cifar_images(const std::string& location, CifarPart part) {
  return count_images(find_files(location, part));
}

LabelledImages read_cifar(const std::string& location, CifarPart part) {
  const CifarFiles files = find_files(location, part);
  LabelledImages images;
  images.pixels.reserve(static_cast<std::size_t>(count_images(files) * kCifarPixels));
  for (const std::string& path : files.paths) {
    const auto source = open_file(path);
    const std::int64_t before = images.count;
    parse_cifar(*source, files.kind, images);
    if (images.count == before) fail_empty(path);
  }
  return images;
}

}  // namespace lockstep::data
