#include "lockstep/checkpoint/format/safetensors_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/checkpoint/format/tensor_file.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::HasSubstr;
using testing::Not;
using Metadata = std::map<std::string, std::string>;

/// Bytes of a tensor, different for every name.
std::vector<std::byte> bytes_of(const std::string& name, std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    values[i] = static_cast<std::byte>(i * 31 + std::hash<std::string>{}(name));
  }
  return values;
}

void write(const fs::path& path, const std::vector<TensorInfo>& tensors,
           const Metadata& metadata = {{"format", "pt"}}) {
  TensorFile file(path, tensors, metadata);
  for (const TensorInfo& info : file.tensors()) {
    (void)file.write(bytes_of(info.name, info.end - info.begin));
  }
  (void)file.commit();
}

std::vector<Problem> problems_of(const fs::path& path) {
  try {
    const SafetensorsSource source(path);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::bad_data);
    return error.problems();
  }
}

std::vector<std::string> names_of(const SafetensorsSource& source) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : source.tensors()) names.push_back(tensor.name);
  return names;
}

void expect_bytes(const SafetensorsSource& source) {
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    std::vector<std::byte> all(tensor.bytes());
    source.read(i, 0, all);
    EXPECT_EQ(all, bytes_of(tensor.name, all.size())) << tensor.name;
  }
}

/// Two shards and their index: a and b in the first, c in the second.
class Shards : public testing::Test {
 protected:
  static constexpr const char* kFirst = "model-00001-of-00002.safetensors";
  static constexpr const char* kSecond = "model-00002-of-00002.safetensors";
  static constexpr const char* kIndex = "model.safetensors.index.json";

  void SetUp() override {
    write(path(kFirst), {{"a", "F32", {2, 2}}, {"b", "F32", {3}}});
    write(path(kSecond), {{"c", "BF16", {5}}});
    write_index({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}});
  }

  void write_index(const std::map<std::string, std::string>& map) {
    std::string text;
    for (const auto& [name, file] : map) {
      text += (text.empty() ? "\"" : ",\"") + name + "\":\"" + file + "\"";
    }
    std::ofstream(path(kIndex)) << R"({"metadata":{"total_size":38},"weight_map":{)" << text
                                << "}}";
  }

  [[nodiscard]] fs::path path(const char* name) const { return scratch_.path() / name; }
  [[nodiscard]] const fs::path& folder() const { return scratch_.path(); }

 private:
  ScratchFolder scratch_;
};

TEST(SafetensorsSource, AFileGivesItsTensorsAndFacts) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  write(path, {{"w", "F32", {2, 3}}, {"s", "I64", {}}, {"e", "F32", {0, 4}}, {"h", "BF16", {3}}},
        {{"format", "pt"}, {"step", "7"}});
  const SafetensorsSource source(path);
  EXPECT_EQ(source.format(), "safetensors");
  EXPECT_EQ(names_of(source), (std::vector<std::string>{"s", "e", "w", "h"}));
  EXPECT_EQ(source.tensors()[2].shape, (Shape{2, 3}));
  EXPECT_EQ(source.tensors()[3].dtype, "BF16");
  EXPECT_EQ(source.facts(), (Metadata{{"format", "pt"}, {"step", "7"}}));
  expect_bytes(source);
  std::vector<std::byte> part(5);
  source.read(2, 7, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes_of("w", 24).begin() + 7));
}

TEST(SafetensorsSource, AReadBeyondATensorIsABugOfTheCaller) {
  const ScratchFolder scratch;
  write(scratch.path() / "x.safetensors", {{"w", "U8", {4}}});
  const SafetensorsSource source(scratch.path() / "x.safetensors");
  std::vector<std::byte> bytes(2);
  EXPECT_NO_THROW(source.read(0, 2, bytes));
  EXPECT_THROW(source.read(0, 3, bytes), Bug);
  EXPECT_THROW(source.read(0, ~std::uint64_t{0}, bytes), Bug);
  EXPECT_THROW(source.read(1, 0, bytes), Bug);
}

TEST(SafetensorsSource, NotedNamesAreAliasesOfTheirTensor) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  write(path, {{"embed", "U8", {4}}, {"pt", "U8", {1}}, {"w", "U8", {1}}},
        {{"format", "pt"}, {"head", "embed"}, {"w", "embed"}, {"note", "nothing"}});
  const SafetensorsSource source(path);
  EXPECT_EQ(source.tensors()[0].aliases, std::vector<std::string>{"head"});
  EXPECT_TRUE(source.tensors()[1].aliases.empty());
  EXPECT_EQ(source.facts(), (Metadata{{"format", "pt"}, {"note", "nothing"}, {"w", "embed"}}));
}

TEST(SafetensorsSource, AFolderIsTakenForTheModelInIt) {
  const ScratchFolder scratch;
  write(scratch.path() / "other.safetensors", {{"o", "U8", {1}}});
  EXPECT_EQ(names_of(SafetensorsSource(scratch.path())), std::vector<std::string>{"o"});
  write(scratch.path() / "another.safetensors", {{"p", "U8", {1}}});
  EXPECT_EQ(names_of(SafetensorsSource(scratch.path())), (std::vector<std::string>{"p", "o"}));
  write(scratch.path() / "model.safetensors", {{"m", "U8", {1}}});
  EXPECT_EQ(names_of(SafetensorsSource(scratch.path())), std::vector<std::string>{"m"});
}

TEST(SafetensorsSource, NothingThereIsNoCheckpoint) {
  const ScratchFolder scratch;
  for (const fs::path& path : {scratch.path(), scratch.path() / "none.safetensors"}) {
    const auto problems = problems_of(path);
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].code, "LS-5003");
    EXPECT_EQ(problems[0].where, path.string());
  }
}

TEST(SafetensorsSource, AShortFileIsNamedWithBothSizesAndWhatIsLost) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  write(path, {{"a", "F32", {500}}, {"b", "F32", {500}}, {"c", "F32", {500}}});
  const auto whole = fs::file_size(path);
  fs::resize_file(path, whole - 2001);
  const auto problems = problems_of(path);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-5004");
  EXPECT_EQ(problems[0].where, path.string());
  EXPECT_THAT(problems[0].what, HasSubstr("has 4,"));
  EXPECT_THAT(problems[0].what, HasSubstr("bytes, 6,"));
  EXPECT_THAT(problems[0].what, HasSubstr("lost: 2 tensors (\"b\", \"c\")"));
}

TEST(SafetensorsSource, EveryTruncationIsFoundAndEveryExtraByte) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  write(path, {{"a", "U8", {5}}, {"b", "U8", {6}}});
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_EQ(problems_of(path).size(), 1U);
  for (auto bytes = fs::file_size(path) - 2; bytes > 0; --bytes) {
    fs::resize_file(path, bytes);
    EXPECT_EQ(problems_of(path).size(), 1U) << bytes;
  }
}

TEST(SafetensorsSource, ATensorInTwoFilesOfAFolderIsRefused) {
  const ScratchFolder scratch;
  write(scratch.path() / "a.safetensors", {{"w", "U8", {1}}, {"x", "U8", {1}}});
  write(scratch.path() / "b.safetensors", {{"w", "U8", {1}}});
  const auto problems = problems_of(scratch.path());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, scratch.path() / "b.safetensors");
  EXPECT_EQ(problems[0].what, "1 tensor (\"w\") also in a.safetensors");
}

TEST(SafetensorsSource, AHeaderLimitGoesForEveryFile) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  write(path, {{"w", "U8", {1}}});
  EXPECT_THAT(test::problem_of<BadData>([&] { const SafetensorsSource source(path, 20); }).what,
              HasSubstr("the limit is 20 "));
}

TEST_F(Shards, AreReadByFolderAndByIndex) {
  for (const fs::path& at : {folder(), path(kIndex)}) {
    const SafetensorsSource source(at);
    EXPECT_EQ(names_of(source), (std::vector<std::string>{"a", "b", "c"}));
    expect_bytes(source);
  }
  EXPECT_EQ(names_of(SafetensorsSource(path(kSecond))), std::vector<std::string>{"c"});
}

TEST_F(Shards, AreReadWithoutAnIndexByTheirNumbers) {
  fs::remove(path(kIndex));
  EXPECT_EQ(SafetensorsSource(folder()).tensors().size(), 3U);
  fs::remove(path(kFirst));
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, path(kFirst));
  EXPECT_EQ(problems[0].what, "missing; 1 of 2 files are there");
  EXPECT_TRUE(problems_of(path(kSecond)).empty());  // on its own it is whole
}

TEST_F(Shards, AShortOneIsNamedWithTheTensorsLost) {
  fs::resize_file(path(kFirst), fs::file_size(path(kFirst)) - 4);
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-5004");
  EXPECT_EQ(problems[0].where, path(kFirst));
  EXPECT_THAT(problems[0].what, HasSubstr("lost: 1 tensor (\"b\")"));
  EXPECT_THAT(problems[0].what, Not(HasSubstr("\"a\"")));
}

TEST_F(Shards, OneCutInsideItsHeaderLosesWhatTheIndexHasInIt) {
  fs::resize_file(path(kFirst), 30);
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, path(kFirst));
  EXPECT_THAT(problems[0].what, HasSubstr("in a file of 30; lost: 2 tensors (\"a\", \"b\")"));
}

TEST_F(Shards, EveryFaultIsReportedAtOnce) {
  write_index({{"a", kFirst},   // b is not listed
               {"c", kFirst},   // is in the second
               {"d", kSecond},  // nowhere
               {"e", "gone.safetensors"}});
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 4U);
  for (const Problem& problem : problems) EXPECT_EQ(problem.code, "LS-5004");
  EXPECT_EQ(problems[0].where, path("gone.safetensors"));
  EXPECT_EQ(problems[0].what, "missing; lost: 1 tensor (\"e\")");
  EXPECT_EQ(problems[1].where, path(kFirst));
  EXPECT_EQ(problems[1].what, std::string("not in ") + kIndex + ": 1 tensor (\"b\")");
  EXPECT_EQ(problems[2].where, path(kSecond));
  EXPECT_THAT(problems[2].what, HasSubstr("1 tensor (\"d\")"));
  EXPECT_EQ(problems[3].where, path(kSecond));
  EXPECT_THAT(problems[3].what, HasSubstr("in another file"));
}

TEST_F(Shards, ManyLostTensorsAreCountedAndSomeNamed) {
  std::vector<TensorInfo> many;
  std::map<std::string, std::string> map;
  for (int i = 0; i < 100; ++i) {
    many.push_back({"t" + std::to_string(i), "U8", {1}});
    map[many.back().name] = kFirst;
  }
  write(path(kFirst), many);
  map["c"] = kSecond;
  write_index(map);
  fs::remove(path(kFirst));
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].what, HasSubstr("100 tensors (\"t0\", "));
  EXPECT_THAT(problems[0].what, HasSubstr(", ...)"));
  EXPECT_LT(problems[0].what.size(), 200U);
}

TEST_F(Shards, AnIndexMayNameAnAlias) {
  write(path(kSecond), {{"c", "BF16", {5}}}, {{"format", "pt"}, {"tied", "c"}});
  write_index({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}, {"tied", kSecond}});
  EXPECT_EQ(SafetensorsSource(folder()).tensors()[2].aliases, std::vector<std::string>{"tied"});
}

TEST_F(Shards, SeveralIndexesAreNotGuessedBetween) {
  fs::rename(path(kIndex), path("x.safetensors.index.json"));
  EXPECT_TRUE(problems_of(folder()).empty());
  fs::copy(path("x.safetensors.index.json"), path("y.safetensors.index.json"));
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-5003");
  EXPECT_THAT(problems[0].fix, HasSubstr("x.safetensors.index.json"));
}

TEST_F(Shards, ADamagedIndexIsNamed) {
  std::ofstream(path(kIndex)) << "<html>";
  const auto problems = problems_of(folder());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].where, path(kIndex));
}

}  // namespace
}  // namespace lockstep::checkpoint
