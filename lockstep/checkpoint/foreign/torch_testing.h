// Pickles and zip archives made by hand, for tests: also such as no program writes.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/foreign/crc32.h"

namespace lockstep::checkpoint::made {

/// Little-endian, `width` bytes.
inline std::string le(std::uint64_t value, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < width; ++i, value = value >> 8U) text += static_cast<char>(value);
  return text;
}

// Opcodes of protocol 2 that leave one value on the stack.
inline std::string text(std::string_view value) {
  return "X" + le(value.size(), 4) + std::string(value);
}
inline std::string integer(std::int64_t value) {
  return "\x8a\x08" + le(static_cast<std::uint64_t>(value), 8);
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string body = "(";
  for (const std::string& item : items) body += item;
  return body + "t";
}
inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::string body = "(";
  for (const std::int64_t value : values) body += integer(value);
  return body + "t";
}
inline std::string list(const std::vector<std::string>& items) {
  std::string body = "](";
  for (const std::string& item : items) body += item;
  return body + "e";
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string body = "}(";
  for (const auto& [key, value] : entries) body += text(key) + value;
  return body + "u";
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string reduce(const std::string& callee, const std::vector<std::string>& args) {
  return callee + tuple(args) + "R";
}
inline std::string ordered_dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string body = global("collections", "OrderedDict") + ")R(";
  for (const auto& [key, value] : entries) body += text(key) + value;
  return body + "u";
}

inline std::string storage(const std::string& type, const std::string& key, std::int64_t elements) {
  const std::string global_of_type =
      type == "UntypedStorage" ? global("torch.storage", type) : global("torch", type);
  return tuple({text("storage"), global_of_type, text(key), text("cpu"), integer(elements)}) + "Q";
}
inline std::string rebuild(const std::string& function, const std::vector<std::string>& args) {
  return reduce(global("torch._utils", function), args);
}
inline std::string tensor(const std::string& stored, std::int64_t offset,
                          const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& stride) {
  return rebuild("_rebuild_tensor_v2", {stored, integer(offset), numbers(shape), numbers(stride),
                                        "\x89", ordered_dict({})});
}

/// A whole pickle that holds one value.
inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

/// One entry of an archive; what is not set is what it should be.
struct ZipPart {
  std::string name;
  std::string bytes;
  std::uint64_t method = 0;
  std::uint64_t flags = 0;
  bool wide = false;  // 64-bit sizes
  std::uint64_t claimed_bytes = ~std::uint64_t{0};
  std::uint64_t header = ~std::uint64_t{0};  // where the directory says that it is
};

/// The sizes of an entry as a 64-bit extra field.
inline std::string wide_sizes(std::uint64_t bytes, std::uint64_t header) {
  return le(1, 2) + le(24, 2) + le(bytes, 8) + le(bytes, 8) + le(header, 8);
}

inline std::string zip_of(const std::vector<ZipPart>& parts) {
  std::string file;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::uint64_t header = part.header != ~std::uint64_t{0} ? part.header : file.size();
    const std::uint64_t bytes =
        part.claimed_bytes != ~std::uint64_t{0} ? part.claimed_bytes : part.bytes.size();
    const std::uint64_t narrow = part.wide ? 0xffffffff : bytes;
    const std::string extra = part.wide ? wide_sizes(bytes, header) : "";
    const std::uint64_t crc = crc32(std::as_bytes(std::span(part.bytes)));
    const std::string common = le(part.flags, 2) + le(part.method, 2) + le(0, 4) + le(crc, 4) +
                               le(narrow, 4) + le(narrow, 4) + le(part.name.size(), 2);
    directory += "PK\1\2" + le(20, 2) + le(20, 2) + common + le(extra.size(), 2) + le(0, 6) +
                 le(0, 4) + le(part.wide ? 0xffffffff : header, 4) + part.name + extra;
    file += "PK\3\4" + le(20, 2) + common + le(0, 2) + part.name + part.bytes;
  }
  const std::uint64_t begin = file.size();
  return file + directory + "PK\5\6" + le(0, 4) + le(parts.size(), 2) + le(parts.size(), 2) +
         le(directory.size(), 4) + le(begin, 4) + le(0, 2);
}

/// A file of torch.save: this pickle and the bytes of storages "0", "1", ...
inline std::string torch_file_of(const std::string& pickled,
                                 const std::vector<std::string>& storages) {
  std::vector<ZipPart> parts{{"x/data.pkl", pickled}, {"x/byteorder", "little"}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    parts.push_back({"x/data/" + std::to_string(i), storages[i]});
  }
  parts.push_back({"x/version", "3\n"});
  return zip_of(parts);
}

/// A folder that goes with its test, in memory where there is one: tests write thousands of files.
class TestFolder {
 public:
  TestFolder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool fast = std::filesystem::is_directory(memory);
    std::string name =
        (fast ? memory : std::filesystem::temp_directory_path()) / "lockstep-foreign-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::checkpoint::made
