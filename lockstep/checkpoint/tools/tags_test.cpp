#include "lockstep/checkpoint/tools/tags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/tools/tag_files.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::problem_of;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A checkpoint of three files and a registry that has it as "best".
class Tags : public testing::Test {
 protected:
  void SetUp() override {
    put(checkpoint() / "manifest.json", "{}");
    put(checkpoint() / ".metadata", "hidden");
    put(checkpoint() / "deep" / "model.safetensors", std::string(3'000'000, 'w'));
    tag_.name = "best";
    tag_.path = checkpoint();
    tag_.format = "lockstep";
    tag_.step = 1200;
    tag_.run = "gpt";
    tag_.metric = "val_loss 2.31";
    tag_.parent = "base";
    tag_ = registry_.add(tag_);
  }
  [[nodiscard]] fs::path checkpoint() const { return scratch_.path() / "step-1200"; }
  [[nodiscard]] fs::path dir() const { return scratch_.path() / "a" / "tags"; }

  ScratchFolder scratch_;
  TagRegistry registry_{dir()};
  Tag tag_;
};

TEST_F(Tags, ATagIsFoundAsItWasAdded) {
  const Tag found = registry_.find("best");
  EXPECT_EQ(found.path, checkpoint());
  EXPECT_EQ(found.format, "lockstep");
  EXPECT_EQ(found.step, 1200);
  EXPECT_EQ(found.run, "gpt");
  EXPECT_EQ(found.metric, "val_loss 2.31");
  EXPECT_EQ(found.parent, "base");
  EXPECT_EQ(found.created, tag_.created);
  EXPECT_THAT(found.created, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  ASSERT_EQ(found.files.size(), 3U);
  EXPECT_EQ(found.files.at("deep/model.safetensors").bytes, 3'000'000U);
  EXPECT_EQ(found.files.at(".metadata").checksum, checksum(std::string_view("hidden")));
  EXPECT_TRUE(verify_tag(found).empty());
}

TEST_F(Tags, ASingleFileMayBeTagged) {
  Tag tag;
  tag.name = "one";
  tag.path = checkpoint() / "manifest.json";
  tag.created = "2026-01-31T12:00:00Z";
  const Tag found = (registry_.add(tag), registry_.find("one"));
  EXPECT_EQ(found.created, "2026-01-31T12:00:00Z");
  EXPECT_EQ(found.step, std::nullopt);
  EXPECT_TRUE(found.files.contains("manifest.json"));
  EXPECT_TRUE(verify_tag(found).empty());
  put(tag.path, "{ }");
  EXPECT_EQ(verify_tag(found).at(0).where, tag.path);
}

TEST_F(Tags, APathIsKeptAsItCanBeFoundFromAnywhere) {
  Tag tag = tag_;
  tag.name = "slash";
  tag.path = checkpoint() / ".." / "step-1200" / "";
  EXPECT_EQ(registry_.add(tag).path, checkpoint());
}

TEST_F(Tags, FilesThatLinksLeadToAreHashed) {
  const fs::path snapshot = scratch_.path() / "snapshot";
  fs::create_directories(snapshot);
  fs::create_symlink(checkpoint() / "manifest.json", snapshot / "x.safetensors");
  EXPECT_EQ(hash_files(snapshot).at("x.safetensors").bytes, 2U);
}

TEST_F(Tags, AnExistingNameIsRefusedUnlessToldOtherwise) {
  const Problem problem = problem_of<UsageError>([&] { (void)registry_.add(tag_); });
  EXPECT_EQ(problem.code, "LS-5016");
  EXPECT_THAT(problem.what, HasSubstr("\"best\" exists"));
  Tag other = tag_;
  other.run = "other";
  (void)registry_.add(other, TagRegistry::Existing::replace);
  EXPECT_EQ(registry_.find("best").run, "other");
}

TEST_F(Tags, AnUnknownNameComesWithTheNearest) {
  const Problem problem = problem_of<UsageError>([&] { (void)registry_.find("bset"); });
  EXPECT_EQ(problem.code, "LS-5016");
  EXPECT_THAT(problem.fix, HasSubstr("best"));
  EXPECT_THROW(registry_.remove("none"), UsageError);
  const TagRegistry empty(scratch_.path() / "nowhere");
  EXPECT_THAT(problem_of<UsageError>([&] { (void)empty.find("best"); }).fix,
              HasSubstr("no checkpoint is tagged"));
  EXPECT_TRUE(empty.list().tags.empty());
}

TEST_F(Tags, BadNamesAreRefusedEverywhere) {
  for (const std::string name :
       {"", ".", "..", ".hidden", "-f", "a/b", "../best", "a b", "é", "a\n", "a:b", "a\\b"}) {
    EXPECT_FALSE(is_tag_name(name));
    Tag tag = tag_;
    tag.name = name;
    EXPECT_EQ(problem_of<UsageError>([&] { (void)registry_.add(tag); }).code, "LS-5016") << name;
    EXPECT_THROW((void)registry_.find(name), UsageError) << name;
    EXPECT_THROW(registry_.remove(name), UsageError) << name;
  }
  EXPECT_FALSE(is_tag_name(std::string("a\0", 2)));
  EXPECT_FALSE(is_tag_name(std::string(201, 'a')));
  for (const char* name : {"a", "A.b-c_9", "9", "a.json", "_"}) EXPECT_TRUE(is_tag_name(name));
  EXPECT_TRUE(is_tag_name(std::string(200, 'a')));
}

TEST_F(Tags, ARemovedTagIsGoneAndItsCheckpointIsNot) {
  registry_.remove("best");
  EXPECT_THROW((void)registry_.find("best"), UsageError);
  EXPECT_TRUE(fs::exists(checkpoint() / "manifest.json"));
}

TEST_F(Tags, NothingToTagIsRefused) {
  Tag tag = tag_;
  tag.name = "none";
  tag.path = scratch_.path() / "none";
  EXPECT_EQ(problem_of<BadData>([&] { (void)registry_.add(tag); }).code, "LS-5003");
  fs::create_directory(tag.path);
  EXPECT_EQ(problem_of<BadData>([&] { (void)registry_.add(tag); }).code, "LS-5003");
}

TEST_F(Tags, TextThatIsNotUtf8IsRefused) {
  Tag tag = tag_;
  tag.name = "text";
  tag.metric = "\xff";
  EXPECT_EQ(problem_of<UsageError>([&] { (void)registry_.add(tag); }).code, "LS-5016");
  tag.metric = "";
  put(checkpoint() / "\xff", "x");
  EXPECT_EQ(problem_of<UsageError>([&] { (void)registry_.add(tag); }).code, "LS-5016");
}

TEST_F(Tags, AChangedSizeOrAMissingFileIsNamedWithoutHashing) {
  put(checkpoint() / "manifest.json", "{ }");
  fs::remove(checkpoint() / ".metadata");
  std::string other(3'000'000, 'w');
  other[77] = 'x';
  put(checkpoint() / "deep" / "model.safetensors", other);
  const auto problems = verify_tag(tag_);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].code, "LS-5017");
  EXPECT_EQ(problems[0].where, checkpoint() / ".metadata");
  EXPECT_THAT(problems[0].what, HasSubstr("tagged best: expected 6 bytes, found no file"));
  EXPECT_EQ(problems[1].where, checkpoint() / "manifest.json");
  EXPECT_THAT(problems[1].what, HasSubstr("expected 2 bytes, found 3 bytes"));
}

TEST_F(Tags, ChangedBytesOfTheSameSizeAreFound) {
  std::string other(3'000'000, 'w');
  other[2'999'999] = 'x';
  put(checkpoint() / "deep" / "model.safetensors", other);
  put(checkpoint() / "later.txt", "not looked at");
  const auto problems = verify_tag(tag_);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-5017");
  EXPECT_EQ(problems[0].where, checkpoint() / "deep" / "model.safetensors");
  EXPECT_THAT(
      problems[0].what,
      HasSubstr("expected xxh3 " + to_hex(tag_.files.at("deep/model.safetensors").checksum)));
}

TEST_F(Tags, ACheckpointThatIsGoneHasEveryFileMissing) {
  fs::remove_all(checkpoint());
  EXPECT_EQ(verify_tag(tag_).size(), 3U);
}

TEST_F(Tags, ADamagedTagIsAProblemOfItsOwnAlone) {
  Tag second = tag_;
  second.name = "also";
  (void)registry_.add(second);
  put(dir() / "broken.json", "{\"tag\":");
  fs::copy(dir() / "also.json", dir() / "copied.json");
  put(dir() / "notes.txt", "mine");
  put(dir() / ".hidden.json", "mine");
  fs::create_directory(dir() / "folder.json");
  const auto listing = registry_.list();
  ASSERT_EQ(listing.tags.size(), 2U);
  EXPECT_EQ(listing.tags[0].name, "also");
  EXPECT_EQ(listing.tags[1].name, "best");
  ASSERT_EQ(listing.problems.size(), 3U);
  EXPECT_EQ(listing.problems[0].where, dir() / "broken.json");
  EXPECT_EQ(listing.problems[1].where, dir() / "copied.json");
  EXPECT_THAT(listing.problems[1].what, HasSubstr("\"also\""));
  EXPECT_EQ(listing.problems[2].where, dir() / "folder.json");
  registry_.remove("broken");
  EXPECT_EQ(registry_.list().problems.size(), 2U);
}

TEST_F(Tags, OfTwoWritersOfOneNameOneIsRefused) {
  int refused = 0;
  {
    std::vector<std::jthread> writers;
    std::vector<int> failed(4);
    for (std::size_t i = 0; i < failed.size(); ++i) {
      writers.emplace_back([&, i] {
        Tag tag = tag_;
        tag.name = "race";
        try {
          (void)registry_.add(tag);
        } catch (const UsageError&) {
          failed[i] = 1;
        }
      });
    }
    writers.clear();
    for (const int one : failed) refused += one;
  }
  EXPECT_EQ(refused, 3);
  EXPECT_TRUE(registry_.list().problems.empty());
}

/// What the reader says about a tag with `from` replaced; empty when it takes it.
std::string fault_of(const Tag& tag, const std::string& from, const std::string& to) {
  std::string text = write_tag(tag);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    (void)parse_tag(text, "x.json");
    return "";
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5004");
    return error.problems()[0].what;
  }
}

TEST_F(Tags, FieldsOfTheFileAreNotTakenOnTrust) {
  EXPECT_EQ(fault_of(tag_, "\"best\"", "\"best\""), "");
  for (const auto& [from, to] :
       {std::pair("\"best\"", "\"../x\""), std::pair("1200,", "-1,"), std::pair("1200,", "1.5,"),
        std::pair("\"gpt\"", "7"), std::pair("\"run\"", "\"tag\""), std::pair("\"run\"", "\"ran\""),
        std::pair("\"bytes\": 6", "\"bytes\": -6"), std::pair("\".metadata\"", "\"/etc/passwd\""),
        std::pair("\".metadata\"", "\"../x\""), std::pair("\".metadata\"", "\"a/../../x\""),
        std::pair("\".metadata\"", "\"\""), std::pair("\".metadata\"", "\"a//b\""),
        std::pair("\".metadata\"", "\"a/\""), std::pair("\".metadata\"", "\"./a\""),
        std::pair("\"xxh3\": \"", "\"xxh3\": \"0"), std::pair("{", "[{")}) {
    EXPECT_NE(fault_of(tag_, from, to), "") << from << " -> " << to;
  }
  EXPECT_EQ(fault_of(tag_, "1200,", "null,"), "");
}

TEST_F(Tags, TheFileIsMadeForPeopleToRead) {
  Tag tag;
  tag.name = "t";
  tag.path = "/c";
  tag.files["f"] = {3, 0xabc};
  EXPECT_EQ(write_tag(tag), R"({
  "tag": "t",
  "path": "/c",
  "format": "",
  "step": null,
  "run": "",
  "metric": "",
  "parent": "",
  "created": "",
  "files": {
    "f": {
      "bytes": 3,
      "xxh3": "0000000000000abc"
    }
  }
}
)");
}

}  // namespace
}  // namespace lockstep::checkpoint
