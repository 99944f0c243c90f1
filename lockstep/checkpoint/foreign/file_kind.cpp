#include "lockstep/checkpoint/foreign/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace lockstep::checkpoint {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kHeadBytes = 512;
constexpr std::size_t kTarMagicAt = 257;

struct Magic {
  std::string_view bytes;
  std::string_view kind;
};

// The number 0x1950a86a20f9469cfc6c as pickles of protocol 2 and 4 have it.
constexpr std::string_view kLegacyNumber = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;

constexpr auto kMagics = std::to_array<Magic>({
    {"\x1f\x8b"sv, "compressed with gzip: unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd: unpack it first"},
    {"\xfd"
     "7zXZ"sv,
     "compressed with xz: unpack it first"},
    {"BZh"sv, "compressed with bzip2: unpack it first"},
    {"version https://git-lfs"sv, "a pointer of git-lfs, not the file itself: git lfs pull"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a numpy array"},
    {"GGUF"sv, "a GGUF file"},
    {"%PDF"sv, "a PDF"},
    {"\x7f"
     "ELF"sv,
     "a program or library"},
    {"{\""sv, "a JSON text"},
});

bool starts_with_any_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

bool is_markup(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const std::string_view text = head.substr(std::min(first, head.size()));
  return starts_with_any_case(text, "<!doctype") || starts_with_any_case(text, "<html") ||
         starts_with_any_case(text, "<head") || starts_with_any_case(text, "<?xml");
}

bool is_legacy(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' &&
         head.substr(0, 32).find(kLegacyNumber) != std::string_view::npos;
}

std::string kind_of_head(std::string_view head) {
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return std::string(magic.kind);
  }
  if (is_markup(head)) return "an HTML or XML page: what was downloaded is not the file";
  if (is_legacy(head)) {
    return "a file of torch.save before PyTorch 1.6: save it again with a current PyTorch, which "
           "reads it with torch.load(weights_only=True)";
  }
  if (head.substr(std::min(kTarMagicAt, head.size())).starts_with("ustar")) {
    return "a tar archive: unpack it, or, if PyTorch before 0.1.10 wrote it, have it saved anew "
           "where it was made";
  }
  if (head.size() > 10 && head.substr(8).starts_with("{\"") && head[7] == '\0') {
    return "a safetensors file: name it .safetensors";
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return "a bare pickle, not a file of torch.save";
  }
  return {};
}

bool all_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

std::string block(const InputFile& file, std::uint64_t begin, std::uint64_t length) {
  std::string bytes(length, '\0');
  file.read(begin, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

std::string kind_of_file(const InputFile& file, std::uint64_t begin, std::uint64_t length) {
  if (length == 0) return "empty";
  const std::uint64_t part = std::min<std::uint64_t>(length, kHeadBytes);
  const std::string head = block(file, begin, part);
  const bool zero = all_zero(head) && all_zero(block(file, begin + length - part, part)) &&
                    all_zero(block(file, begin + (length - part) / 2, part));
  if (zero) return "zeros: its writing or copying never came to the bytes";
  return kind_of_head(head);
}

}  // namespace lockstep::checkpoint
