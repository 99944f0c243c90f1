// docs/layers.txt against what the sources include.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/architecture/source_tree.h"

namespace lockstep::test {
namespace {

/// Calls visit(file, its folder, what it includes) for each include in lockstep/.
void for_each_include(
    const std::function<void(const SourceFile&, const std::string&, const std::string&)>& visit) {
  for (const auto& file : all_files()) {
    if (!file.is_cpp() || !file.path.starts_with("lockstep/")) continue;
    for (const auto& included : includes_of(file)) visit(file, folder_of(file.path), included);
  }
}

bool is_torch_header(const std::string& included) {
  static const std::vector<std::string> kTops{"ATen/", "c10/", "torch/", "caffe2/"};
  return std::any_of(kTops.begin(), kTops.end(),
                     [&](const auto& top) { return included.starts_with(top); });
}

TEST(Layers, EveryFolderWithSourcesHasALineAndEveryLineAFolder) {
  std::set<std::string> with_sources;
  for (const auto& file : all_files()) {
    if (file.is_cpp() && file.path.starts_with("lockstep/")) {
      with_sources.insert(folder_of(file.path));
    }
  }
  std::set<std::string> in_table;
  for (const auto& [folder, layer] : layers()) in_table.insert(folder);
  EXPECT_EQ(with_sources, in_table);
}

TEST(Layers, EveryLineNamesFoldersThatHaveALine) {
  for (const auto& [folder, layer] : layers()) {
    for (const auto& other : layer.may_include) {
      EXPECT_TRUE(layers().contains(other)) << folder << " may include " << other;
    }
  }
}

TEST(Layers, EveryIncludeIsAllowedByTheTable) {
  for_each_include(
      [](const SourceFile& file, const std::string& folder, const std::string& included) {
        if (included.starts_with("tests/")) {
          EXPECT_TRUE(file.is_test() || file.path.ends_with("_fuzz.cpp"))
              << file.path << " includes " << included;
        }
        if (!included.starts_with("lockstep/")) return;
        EXPECT_TRUE(std::filesystem::exists(root() / included)) << file.path << ": " << included;
        const std::string other = folder_of(included);
        EXPECT_TRUE(other == folder || layers().at(folder).may_include.contains(other))
            << file.path << " includes " << included << ", but docs/layers.txt does not let "
            << folder << " include " << other;
      });
}

TEST(Layers, EveryEntryOfTheTableIsIncludedBySomeFileOfItsFolder) {
  std::map<std::string, std::set<std::string>> unused;
  for (const auto& [folder, layer] : layers()) unused[folder] = layer.may_include;
  for_each_include([&](const SourceFile&, const std::string& folder, const std::string& included) {
    unused[folder].erase(folder_of(included));
  });
  for (const auto& [folder, others] : unused) {
    for (const auto& other : others) {
      ADD_FAILURE() << "no file of lockstep/" << folder << " includes one of lockstep/" << other
                    << ": take it off the line of " << folder << " in docs/layers.txt";
    }
  }
}

TEST(Layers, OnlyFoldersMarkedTIncludeLibTorch) {
  for_each_include(
      [](const SourceFile& file, const std::string& folder, const std::string& included) {
        EXPECT_TRUE(!is_torch_header(included) || layers().at(folder).links_torch)
            << file.path << " includes " << included;
      });
}

TEST(Layers, AFolderWithoutLibTorchMayIncludeNoFolderWithIt) {
  for (const auto& [folder, layer] : layers()) {
    for (const auto& other : layer.may_include) {
      EXPECT_TRUE(layer.links_torch || !layers().at(other).links_torch)
          << folder << " -> " << other;
    }
  }
}

TEST(Layers, TheTorchHeaderThatCostsThirteenSecondsIsIncludedNowhere) {
  for_each_include([](const SourceFile& file, const std::string&, const std::string& included) {
    EXPECT_NE(included, "torch/torch.h") << file.path;
  });
}

/// Visits `folder` depth first; a folder met again on the way down closes a cycle.
void expect_no_cycle(const std::string& folder,
                     const std::map<std::string, std::set<std::string>>& graph,
                     std::vector<std::string>& way, std::set<std::string>& done) {
  if (done.contains(folder)) return;
  ASSERT_EQ(std::find(way.begin(), way.end(), folder), way.end())
      << "cycle through " << folder << " and " << way.back();
  way.push_back(folder);
  if (const auto row = graph.find(folder); row != graph.end()) {
    for (const auto& next : row->second) expect_no_cycle(next, graph, way, done);
  }
  way.pop_back();
  done.insert(folder);
}

TEST(Layers, NoTwoFoldersIncludeEachOtherOnAnyWay) {
  std::map<std::string, std::set<std::string>> graph;
  for_each_include([&](const SourceFile&, const std::string& folder, const std::string& included) {
    const std::string other = folder_of(included);
    if (!other.empty() && other != folder) graph[folder].insert(other);
  });
  std::set<std::string> done;
  for (const auto& [folder, next] : graph) {
    std::vector<std::string> way;
    expect_no_cycle(folder, graph, way, done);
  }
}

}  // namespace
}  // namespace lockstep::test
