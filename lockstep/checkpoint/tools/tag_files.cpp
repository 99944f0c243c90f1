#include "lockstep/checkpoint/tools/tag_files.h"

#include <vector>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/running_checksum.h"
#include "lockstep/checkpoint/tools/chunks.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kThreads = 2;

std::vector<std::string> files_below(const fs::path& path) {
  if (fs::is_regular_file(path)) return {path.filename().string()};
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(path).string());
  }
  return names;
}

std::map<std::string, TaggedFile> hash(const fs::path& path,
                                       const std::vector<std::string>& names) {
  std::vector<TaggedFile> hashed(names.size());
  for_each_chunk(names.size(), kThreads, [&](int, std::uint64_t i) {
    const InputFile file(tagged_path(path, names[i]));
    hashed[i] = {file.size_bytes(), checksum_of_range(file, 0, file.size_bytes())};
  });
  std::map<std::string, TaggedFile> files;
  for (std::size_t i = 0; i < names.size(); ++i) files[names[i]] = hashed[i];
  return files;
}

}  // namespace

fs::path tagged_path(const fs::path& path, const std::string& name) {
  return fs::is_directory(path) ? path / name : path;
}

std::map<std::string, TaggedFile> hash_files(const fs::path& path) {
  return hash(path, files_below(path));
}

std::map<std::string, TaggedFile> hash_again(const Tag& tag) {
  std::vector<std::string> names;
  for (const auto& [name, file] : tag.files) names.push_back(name);
  return hash(tag.path, names);
}

}  // namespace lockstep::checkpoint
