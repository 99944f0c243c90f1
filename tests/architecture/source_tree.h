// The files of this repository as values, for tests about how they are written and fit together.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

struct SourceFile {
  std::string path;  // from the root, "lockstep/base/error.h"
  std::string text;
  bool executable = false;
  [[nodiscard]] bool is_cpp() const;     // .h or .cpp
  [[nodiscard]] bool is_header() const;  // .h
  [[nodiscard]] bool is_test() const;    // below tests/, or *_test.cpp
};

/// The repository's root.
[[nodiscard]] std::filesystem::path root();

/// Every file that belongs to the repository (not build/, runs/, .git/ or Python's caches), by
/// path.
[[nodiscard]] const std::vector<SourceFile>& all_files();

/// A line of docs/layers.txt.
struct Layer {
  bool links_torch = false;
  std::set<std::string> may_include;
};
[[nodiscard]] const std::map<std::string, Layer>& layers();

/// The folder below lockstep/ that a file of it is in: "lockstep/data/formats/idx.h" ->
/// "data/formats".
[[nodiscard]] std::string folder_of(std::string_view path);

/// What a file includes, in order: "lockstep/base/error.h", "ATen/ATen.h".
[[nodiscard]] std::vector<std::string> includes_of(const SourceFile& file);

/// All matches of `pattern` (ECMAScript) in `text`: the whole match, or the first group where there
/// is one.
[[nodiscard]] std::vector<std::string> find_all(const std::string& text,
                                                const std::string& pattern);

[[nodiscard]] std::vector<std::string> split_lines(const std::string& text);

}  // namespace lockstep::test
