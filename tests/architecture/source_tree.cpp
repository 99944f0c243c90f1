#include "tests/architecture/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool is_ignored(const fs::path& path) {
  static const std::set<std::string> kIgnored{".git", "build", "runs", "__pycache__"};
  return kIgnored.contains(path.filename().string()) || path.extension() == ".pyc";
}

std::vector<SourceFile> read_all_files() {
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root()); it != fs::end(it); ++it) {
    if (is_ignored(it->path())) {
      if (it->is_directory()) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file()) continue;
    const bool executable = (it->status().permissions() & fs::perms::owner_exec) != fs::perms::none;
    files.push_back({fs::relative(it->path(), root()).string(), read_text(it->path()), executable});
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::map<std::string, Layer> read_layers() {
  std::map<std::string, Layer> table;
  for (const auto& line : split_lines(read_text(root() / "docs/layers.txt"))) {
    std::istringstream words(line);
    std::string folder;
    std::string torch;
    if (!(words >> folder >> torch) || folder.starts_with("#")) continue;
    Layer layer;
    layer.links_torch = torch == "T";
    for (std::string word; words >> word;) layer.may_include.insert(word);
    table[folder] = layer;
  }
  return table;
}

}  // namespace

bool SourceFile::is_cpp() const { return path.ends_with(".h") || path.ends_with(".cpp"); }
bool SourceFile::is_header() const { return path.ends_with(".h"); }
bool SourceFile::is_test() const {
  return path.starts_with("tests/") || path.ends_with("_test.cpp");
}

fs::path root() { return LOCKSTEP_SOURCE_DIR; }

const std::vector<SourceFile>& all_files() {
  static const std::vector<SourceFile> kFiles = read_all_files();
  return kFiles;
}

const std::map<std::string, Layer>& layers() {
  static const std::map<std::string, Layer> kLayers = read_layers();
  return kLayers;
}

std::string folder_of(std::string_view path) {
  constexpr std::string_view kTop = "lockstep/";
  const auto slash = path.rfind('/');
  if (!path.starts_with(kTop) || slash < kTop.size()) return "";
  return std::string(path.substr(kTop.size(), slash - kTop.size()));
}

std::vector<std::string> includes_of(const SourceFile& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> included;
  for (const auto& line : split_lines(file.text)) {
    std::smatch match;
    if (line.find('#') != std::string::npos && std::regex_search(line, match, kInclude)) {
      included.push_back(match[1]);
    }
  }
  return included;
}

std::vector<std::string> find_all(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
    found.push_back(it->size() > 1 ? (*it)[1].str() : it->str());
  }
  return found;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace lockstep::test
