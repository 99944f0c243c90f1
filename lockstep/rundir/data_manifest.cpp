#include "lockstep/rundir/data_manifest.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/sha256.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 1'000'000;  // beyond, a name more says nothing

using NamedSize = std::pair<std::string, std::uintmax_t>;

/// Of a file, or of all files below a folder; what cannot be read is not there.
std::vector<NamedSize> files_of(const fs::path& path) {
  std::vector<NamedSize> files;
  std::error_code unread;
  if (fs::is_regular_file(path, unread)) files.emplace_back("", fs::file_size(path, unread));
  if (!fs::is_directory(path, unread)) return files;
  for (auto entry = fs::recursive_directory_iterator(path, unread);
       !unread && entry != fs::recursive_directory_iterator() && files.size() < kMostFiles;
       entry.increment(unread)) {
    std::error_code odd;
    if (!entry->is_regular_file(odd)) continue;
    files.emplace_back(entry->path().lexically_relative(path).string(), entry->file_size(odd));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string data_manifest(const config::DataSection& data) {
  Sha256 hash;
  bool has_files = false;
  for (const std::string& path : {data.train, data.eval}) {
    if (path.empty() || path.front() == '!') continue;
    for (const auto& [name, bytes] : files_of(path)) {
      has_files = true;
      hash.add(name + '\n' + std::to_string(bytes) + '\n');
    }
    hash.add("\n");
  }
  return has_files ? hash.hex() : "";
}

}  // namespace lockstep::rundir
