// Paths that README.md and docs/ name must exist: a moved file takes its mentions along.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::vector<const SourceFile*> documents() {
  std::vector<const SourceFile*> found;
  for (const auto& file : all_files()) {
    if (file.path.ends_with(".md")) found.push_back(&file);
  }
  return found;
}

/// A path from the root in backticks: its first part is a folder or file of the root.
bool is_repository_path(const std::string& text) {
  static const std::regex kPath("[A-Za-z0-9_.-]+(/[A-Za-z0-9_.+-]+)*/?");
  if (!std::regex_match(text, kPath) || text.starts_with("build/") || text.starts_with("runs/")) {
    return false;
  }
  const auto slash = text.find('/');
  if (slash == std::string::npos) {
    return text == "Makefile" || text.ends_with(".md") || text == "CMakeLists.txt";
  }
  return fs::exists(root() / text.substr(0, slash));
}

bool exists_from(const SourceFile& document, const std::string& path) {
  return fs::exists(root() / path) ||
         fs::exists(root() / fs::path(document.path).parent_path() / path);
}

TEST(Documents, EveryPathInBackticksExists) {
  for (const SourceFile* document : documents()) {
    for (const auto& text : find_all(document->text, "`([^`\n]+)`")) {
      if (!is_repository_path(text)) continue;
      EXPECT_TRUE(exists_from(*document, text)) << document->path << " names " << text;
    }
  }
}

TEST(Documents, EveryRelativeLinkLeadsSomewhere) {
  for (const SourceFile* document : documents()) {
    for (auto target : find_all(document->text, R"(\]\(([^)\s]+)\))")) {
      target = target.substr(0, target.find('#'));
      if (target.empty() || target.find("://") != std::string::npos) continue;
      const fs::path path = fs::path(document->path).parent_path() / target;
      EXPECT_TRUE(fs::exists(root() / path)) << document->path << " links to " << target;
    }
  }
}

TEST(Documents, TheFrontPageNamesEveryTopFolder) {
  std::string front;
  for (const SourceFile* document : documents()) {
    if (document->path == "README.md") front = document->text;
  }
  for (const auto& entry : fs::directory_iterator(root())) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.starts_with(".") || name == "build" || name == "runs")
      continue;
    EXPECT_NE(front.find(name + "/"), std::string::npos)
        << "README.md does not name " << name << "/";
  }
}

}  // namespace
}  // namespace lockstep::test
