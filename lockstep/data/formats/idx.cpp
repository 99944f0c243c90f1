#include "lockstep/data/formats/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImages = "images-idx3";
constexpr std::string_view kLabels = "labels-idx1";

[[noreturn]] void fail(const ByteSource& source, const char* code, std::uint64_t offset,
                       const std::string& what, const std::string& fix) {
  throw BadData({code, source.name() + ": offset " + std::to_string(offset), what, fix});
}

[[noreturn]] void fail_length(const ByteSource& source, std::uint64_t offset,
                              std::uint64_t expected, const std::string& actual) {
  fail(source, "LS-2002", offset,
       "the header announces " + std::to_string(expected) + " bytes in all, the file has " +
           actual + (source.compressed() ? " (inflated)" : ""),
       "copy or download the file again");
}

void read_header_bytes(ByteSource& source, std::span<std::byte> into) {
  const std::size_t got = source.read(into);
  if (got < into.size()) {
    fail_length(source, source.offset_bytes(), source.offset_bytes() - got + into.size(),
                std::to_string(source.offset_bytes()));
  }
}

std::size_t read_dim_count(ByteSource& source) {
  std::array<std::byte, 4> magic{};
  read_header_bytes(source, magic);
  const char* const fix = "data.format = \"idx\" reads MNIST-like files: see docs/formats/idx.md";
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail(source, "LS-2003", 0, "not an idx file: it does not begin with two zero bytes", fix);
  }
  const int type = std::to_integer<int>(magic[2]);
  if (type != kIdxUnsignedByte) {
    fail(source, "LS-2003", 2,
         "element type " + std::to_string(type) + ", expected 8 (unsigned byte)", fix);
  }
  const auto dims = std::to_integer<std::size_t>(magic[3]);
  if (dims == 0 || dims > kIdxMaxDims) {
    fail(source, "LS-2003", 3, std::to_string(dims) + " dimensions, expected 1 to 4", fix);
  }
  return dims;
}

std::int64_t read_dim(ByteSource& source) {
  std::array<std::byte, 4> big_endian{};
  read_header_bytes(source, big_endian);
  std::int64_t dim = 0;
  for (const std::byte b : big_endian) dim = dim * 256 + std::to_integer<std::int64_t>(b);
  return dim;
}

// The product of the dims, checked against the bytes that can follow: nothing is allocated on the
// word of a header.
std::uint64_t checked_size(const ByteSource& source, const std::vector<std::int64_t>& dims) {
  std::uint64_t size = 1;
  for (const std::int64_t dim : dims) {
    const auto factor = static_cast<std::uint64_t>(dim);
    if (factor != 0 && size > std::numeric_limits<std::int64_t>::max() / factor) {
      fail(source, "LS-2003", 4, "the product of the dimensions overflows 63 bits",
           "the header is damaged: copy or download the file again");
    }
    size *= factor;
  }
  if (size > source.at_most_bytes()) {
    const std::uint64_t present = source.offset_bytes() + source.at_most_bytes();
    fail_length(source, source.offset_bytes(), source.offset_bytes() + size,
                (source.compressed() ? "at most " : "") + std::to_string(present));
  }
  return size;
}

std::string shape_text(const std::vector<std::int64_t>& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

std::vector<std::int64_t> read_dims(ByteSource& source) {
  std::vector<std::int64_t> dims(read_dim_count(source));
  for (std::int64_t& dim : dims) dim = read_dim(source);
  return dims;
}

void require_dims(const ByteSource& source, const std::vector<std::int64_t>& dims,
                  std::size_t expected) {
  if (dims.size() == expected) return;
  fail(source, "LS-2003", 3,
       "an array of " + shape_text(dims) + ", expected " + std::to_string(expected) + " dimensions",
       "images have 3 (count, height, width), labels 1");
}

void require_elements(const ByteSource& source, const std::vector<std::int64_t>& dims) {
  if (std::find(dims.begin(), dims.end(), 0) == dims.end()) return;
  fail(source, "LS-2003", 4, "an array of " + shape_text(dims) + " holds nothing",
       "the header is damaged, or the file was never filled: copy or download it again");
}

IdxArray read_idx(const std::string& path, std::size_t dims) {
  const auto source = open_file(path);
  IdxArray array = parse_idx(*source);
  require_dims(*source, array.dims, dims);
  require_elements(*source, array.dims);
  return array;
}

/// The dims that a file's header announces, as far as the file's size can hold them.
std::vector<std::int64_t> header_dims(const std::string& path, std::size_t expected) {
  const auto source = open_file(path);
  std::vector<std::int64_t> dims = read_dims(*source);
  require_dims(*source, dims, expected);
  require_elements(*source, dims);
  (void)checked_size(*source, dims);
  return dims;
}

void require_equal_counts(const std::string& labels_file, std::int64_t labels,
                          const std::string& images_file, std::int64_t images) {
  if (labels == images) return;
  throw BadData({"LS-2002", labels_file,
                 std::to_string(labels) + " labels for " + std::to_string(images) + " images in " +
                     images_file,
                 "the two files do not belong together: copy or download them again"});
}

std::string images_path(const std::string& location, IdxPart part) {
  std::error_code unreadable;  // opening the file reports it
  if (!fs::is_directory(location, unreadable)) return location;
  const std::string name = part == IdxPart::train ? "train" : "t10k";
  const fs::path plain = fs::path(location) / (name + "-images-idx3-ubyte");
  const std::string packed = plain.string() + ".gz";
  if (fs::exists(packed, unreadable)) return packed;
  if (fs::exists(plain, unreadable)) return plain.string();
  throw EnvironmentFault({"LS-2001", location,
                          "the folder has neither " + plain.filename().string() + " nor " +
                              plain.filename().string() + ".gz",
                          "name the folder that has one of them, or the images file itself"});
}

std::string labels_path(const std::string& images) {
  const std::size_t at = images.rfind(kImages);
  if (at == std::string::npos) {
    throw UsageError(
        {{"LS-2003", images, "the labels' file cannot be derived: the name has no \"images-idx3\"",
          "name a folder with the standard names, or a file like "
          "train-images-idx3-ubyte.gz"}});
  }
  std::string labels = images;
  return labels.replace(at, kImages.size(), kLabels);
}

}  // namespace

IdxArray parse_idx(ByteSource& source) {
  IdxArray array;
  array.dims = read_dims(source);
  const std::uint64_t size = checked_size(source, array.dims);
  const std::uint64_t expected = source.offset_bytes() + size;
  array.values = read_up_to(source, size);
  if (array.values.size() < size) {
    fail_length(source, source.offset_bytes(), expected, std::to_string(source.offset_bytes()));
  }
  std::byte extra{};
  if (source.read({&extra, 1}) != 0) {
    const std::string actual = source.compressed()
                                   ? "more"
                                   : std::to_string(source.offset_bytes() + source.at_most_bytes());
    fail_length(source, expected, expected, actual);
  }
  return array;
}

void write_idx(const std::string& path, const IdxArray& array) {
  std::vector<std::uint8_t> bytes{0, 0, kIdxUnsignedByte,
                                  static_cast<std::uint8_t>(array.dims.size())};
  for (const std::int64_t dim : array.dims) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
  }
  bytes.insert(bytes.end(), array.values.begin(), array.values.end());
  write_file(path, std::as_bytes(std::span(bytes)));
}

std::vector<std::int64_t> read_idx_dims(const std::string& location, IdxPart part) {
  return header_dims(images_path(location, part), 3);
}

std::vector<std::int64_t> check_idx_files(const std::string& location, IdxPart part) {
  const std::string path = images_path(location, part);
  std::vector<std::int64_t> dims = header_dims(path, 3);
  const std::string labels = labels_path(path);
  require_equal_counts(labels, header_dims(labels, 1)[0], path, dims[0]);
  return dims;
}

LabelledImages read_idx_images(const std::string& location, IdxPart part) {
  const std::string path = images_path(location, part);
  (void)open_file(path);  // a missing file is told before a name that nothing derives from
  const std::string labels = labels_path(path);
  IdxArray images = read_idx(path, 3);
  IdxArray classes = read_idx(labels, 1);
  require_equal_counts(labels, classes.dims[0], path, images.dims[0]);
  return {.count = images.dims[0],
          .channels = 1,
          .height = images.dims[1],
          .width = images.dims[2],
          .pixels = std::move(images.values),
          .labels = std::move(classes.values)};
}

}  // namespace lockstep::data
