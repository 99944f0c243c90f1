#include "lockstep/checkpoint/foreign/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using std::string_literals::operator""s;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int64_t>;
using Texts = std::vector<std::pair<std::string, std::string>>;  // key and pickled value

const std::string kClasses = "torch.distributed.checkpoint.metadata";

/// An object of a dataclass.
std::string object(const std::string& module, const std::string& name, const Texts& attributes) {
  return made::global(module, name) + ")\x81" + made::dict(attributes) + "b";
}
std::string size_of(const Numbers& numbers) {
  return made::reduce(made::global("torch", "Size"), {made::numbers(numbers)});
}
std::string chunk_of(const Numbers& offset, const Numbers& shape) {
  return object(kClasses, "ChunkStorageMetadata",
                {{"offsets", size_of(offset)}, {"sizes", size_of(shape)}});
}
std::string tensor_of(const Numbers& shape, const std::vector<std::string>& chunks,
                      const std::string& dtype = "float32") {
  const std::string layout = made::reduce(made::global("torch.serialization", "_get_layout"),
                                          {made::text("torch.strided")});
  const std::string format =
      made::reduce(made::global(kClasses, "_MEM_FORMAT_ENCODING"), {made::integer(0)});
  const std::string properties =
      made::global(kClasses, "TensorProperties") + ")\x81" +
      made::tuple({made::global("torch", dtype), layout, "\x89", format, "\x89"}) + "b";
  return object(
      kClasses, "TensorStorageMetadata",
      {{"properties", properties}, {"size", size_of(shape)}, {"chunks", made::list(chunks)}});
}
std::string index_of(const std::string& name, const std::string& offset) {
  return object(kClasses, "MetadataIndex",
                {{"fqn", made::text(name)}, {"index", "N"}, {"offset", offset}});
}
std::string place_of(const std::string& file, std::int64_t offset, std::int64_t length,
                     const Texts& more = {}) {
  Texts attributes{{"relative_path", made::text(file)},
                   {"offset", made::integer(offset)},
                   {"length", made::integer(length)}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return object("torch.distributed.checkpoint.filesystem", "_StorageInfo", attributes);
}

std::string floats(const Numbers& values) {
  std::string bytes;
  for (const std::int64_t value : values) {
    const auto number = static_cast<float>(value);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

std::int64_t product(const Numbers& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  return elements;
}

class DcpFolderTest : public ::testing::Test {
 protected:
  /// Puts an item behind those of `file`. \returns its place.
  std::string put(const std::string& file, const std::string& item) {
    std::string& bytes = files_[file];
    const std::size_t offset = bytes.size();
    bytes += item;
    return place_of(file, static_cast<std::int64_t>(offset),
                    static_cast<std::int64_t>(item.size()));
  }
  static std::string item(const Numbers& shape, const Numbers& values) {
    Numbers stride(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
    const std::string storage = made::storage("FloatStorage", "0", product(shape));
    return made::torch_file_of(made::pickle(made::tensor(storage, 0, shape, stride)),
                               {floats(values)});
  }
  void add(const std::string& name, const std::string& entry) {
    entries_.emplace_back(name, entry);
  }
  void place(const std::string& name, const std::string& offset, const std::string& where) {
    places_ += index_of(name, offset) + where;
  }
  /// One chunk that is the whole of a [2] tensor.
  void add_plain(const std::string& name, const std::string& where) {
    add(name, tensor_of({2}, {chunk_of({0}, {2})}));
    place(name, size_of({0}), where);
  }
  /// [2, 3] in columns: 1 4 of rank 0, 2 3 5 6 of rank 1.
  void add_columns() {
    add("w", tensor_of({2, 3}, {chunk_of({0, 0}, {2, 1}), chunk_of({0, 1}, {2, 2})}));
    place("w", size_of({0, 0}), put("__0_0.distcp", item({2, 1}, {1, 4})));
    place("w", size_of({0, 1}), put("__1_0.distcp", item({2, 2}, {2, 3, 5, 6})));
  }
  void write() const {
    for (const auto& [name, bytes] : files_) folder_.write(name, bytes);
    folder_.write(".metadata", made::pickle(object(kClasses, "Metadata",
                                                   {{"state_dict_metadata", made::dict(entries_)},
                                                    {"planner_data", "}"},
                                                    {"storage_data", "}(" + places_ + "u"},
                                                    {"storage_meta", "N"},
                                                    {"version", made::text("1.0.0")}})));
  }
  DcpSource source() {
    write();
    return DcpSource(folder_.path());
  }
  [[nodiscard]] std::string fault_of_folder() const {
    try {
      const DcpSource opened(folder_.path());
      return "";
    } catch (const BadData& error) {
      const Problem& problem = error.problems()[0];
      return problem.code + " " + problem.where + ": " + problem.what;
    }
  }
  /// What the reader says; the next one begins with an empty folder.
  std::string fault() {
    write();
    std::string text = fault_of_folder();
    files_.clear();
    entries_.clear();
    places_.clear();
    return text;
  }

  made::TestFolder folder_;
  std::map<std::string, std::string> files_;
  Texts entries_;
  std::string places_;
};

TEST_F(DcpFolderTest, ChunksOfSeveralFilesArePutTogether) {
  add_columns();
  const auto opened = source();
  EXPECT_EQ(opened.format(), "dcp");
  EXPECT_EQ(opened.facts().at("dcp_version"), "1.0.0");
  ASSERT_EQ(opened.tensors().size(), 1U);
  EXPECT_EQ(opened.tensors()[0].name, "w");
  EXPECT_EQ(opened.tensors()[0].dtype, "F32");
  EXPECT_EQ(opened.tensors()[0].shape, (Shape{2, 3}));
  const std::string all = floats({1, 2, 3, 4, 5, 6});
  for (std::size_t begin = 0; begin <= all.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= all.size(); ++length) {
      std::string part(length, '?');
      opened.read(0, begin, std::as_writable_bytes(std::span(part)));
      EXPECT_EQ(part, all.substr(begin, length));
    }
  }
}

TEST_F(DcpFolderTest, ScalarsAndEmptyTensorsAreRead) {
  add("s", tensor_of({}, {chunk_of({}, {})}));
  place("s", size_of({}), put("__0_0.distcp", item({}, {7})));
  add("none", tensor_of({0, 3}, {chunk_of({0, 0}, {0, 3})}));
  place("none", size_of({0, 0}), put("__0_0.distcp", item({0, 3}, {})));
  const auto opened = source();
  ASSERT_EQ(opened.tensors().size(), 2U);
  std::string bytes(4, '?');
  opened.read(0, 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, floats({7}));
  opened.read(1, 0, {});
}

TEST_F(DcpFolderTest, TwoNamesOfOneItemAreAliases) {
  const std::string where = put("__0_0.distcp", item({2}, {1, 2}));
  add_plain("a", where);
  add_plain("b", where);
  const auto opened = source();
  ASSERT_EQ(opened.tensors().size(), 1U);
  EXPECT_THAT(opened.tensors()[0].aliases, ElementsAre("b"));
}

TEST_F(DcpFolderTest, WhatIsNoTensorIsLeftOutWithWhy) {
  add("step", object(kClasses, "BytesStorageMetadata", {}));
  place("step", "N", place_of("__0_0.distcp", 0, 1234));
  add("c", tensor_of({2}, {chunk_of({0}, {2})}, "complex128"));
  const auto opened = source();
  EXPECT_TRUE(opened.tensors().empty());
  ASSERT_EQ(opened.skipped().size(), 2U);
  EXPECT_EQ(opened.skipped()[0].name, "step");
  EXPECT_EQ(opened.skipped()[0].why, "a Python object, no tensor, 1,234 bytes");
  EXPECT_THAT(opened.skipped()[1].why, HasSubstr("torch.complex128"));
}

TEST_F(DcpFolderTest, ChunksThatOverlapOrLeaveAHoleAreRefused) {
  const std::string where = put("__0_0.distcp", item({1}, {1}));
  add("w", tensor_of({2}, {chunk_of({0}, {2}), chunk_of({1}, {1})}));
  place("w", size_of({0}), where);
  place("w", size_of({1}), where);
  EXPECT_THAT(fault(), HasSubstr("\"w\": its pieces overlap"));
  add("w", tensor_of({2}, {chunk_of({0}, {1})}));
  place("w", size_of({0}), where);
  EXPECT_THAT(fault(), HasSubstr("\"w\": its pieces leave 1 elements out"));
  add("w", tensor_of({2}, {chunk_of({1}, {2})}));
  place("w", size_of({1}), where);
  EXPECT_THAT(fault(), HasSubstr("outside the shape"));
  add("w", tensor_of({2}, {}));
  EXPECT_THAT(fault(), HasSubstr("leave 2 elements out"));
}

TEST_F(DcpFolderTest, ItemsThatOverlapAreRefused) {
  const std::string bytes = item({2}, {1, 2});
  const auto size = static_cast<std::int64_t>(bytes.size());
  for (const std::int64_t at : {0, 1, 100}) {
    add_plain("a", put("__0_0.distcp", bytes));
    add_plain("b", place_of("__0_0.distcp", at, size + 1));
    EXPECT_THAT(fault(), HasSubstr("of __0_0.distcp overlaps one of \"")) << at;
  }
  add_plain("a", put("__0_0.distcp", bytes));
  add_plain("b", put("__1_0.distcp", bytes));  // the same place in another file
  add_plain("c", put("__0_0.distcp", bytes));
  EXPECT_EQ(source().tensors().size(), 3U);
}

TEST_F(DcpFolderTest, OneItemForSeveralChunksIsOpenedOnce) {
  const std::string where = put("__0_0.distcp", item({1}, {7}));
  std::vector<std::string> chunks;
  for (std::int64_t i = 0; i < 4; ++i) {
    chunks.push_back(chunk_of({i}, {1}));
    place("w", size_of({i}), where);
  }
  add("w", tensor_of({4}, chunks));
  const auto opened = source();
  std::string all(16, '?');
  opened.read(0, 0, std::as_writable_bytes(std::span(all)));
  EXPECT_EQ(all, floats({7, 7, 7, 7}));
}

TEST_F(DcpFolderTest, ChunksThatRepeatOneElementWithoutEndAreRefused) {
  const auto endless = [](std::int64_t elements) {
    return made::torch_file_of(
        made::pickle(made::tensor(made::storage("FloatStorage", "0", 1), 0, {elements}, {0})),
        {floats({1})});
  };
  const std::int64_t most = 1 << 28;
  add("w", tensor_of({most}, {chunk_of({0}, {most})}));
  place("w", size_of({0}), put("__0_0.distcp", endless(most)));
  EXPECT_THAT(fault(), HasSubstr("1000 times the bytes of the files"));
  add("w", tensor_of({1000}, {chunk_of({0}, {1000})}));
  place("w", size_of({0}), put("__0_0.distcp", endless(1000)));
  EXPECT_EQ(fault(), "");
}

TEST_F(DcpFolderTest, NamesOfAnyLengthAreNot) {
  const std::string where = put("__0_0.distcp", item({2}, {1, 2}));
  add_plain(std::string(1024, 'n'), where);
  EXPECT_EQ(fault(), "");
  add_plain(std::string(1025, 'n'), where);
  EXPECT_THAT(fault(), HasSubstr("a name of more than 1024 bytes"));
  add_plain("w", place_of(std::string(256, 'f'), 0, 10));
  EXPECT_THAT(fault(), HasSubstr("which is no name of a file"));
  add("w", tensor_of({4097}, std::vector<std::string>(4097, chunk_of({0}, {1}))));
  EXPECT_THAT(fault(), HasSubstr("\"w\": more than 4096 chunks"));
}

TEST_F(DcpFolderTest, AVersionThatIsNoTextIsLeftOut) {
  for (const std::string& version : {made::integer(3), "C\x01\xff"s}) {
    folder_.write(
        ".metadata",
        made::pickle(
            object(kClasses, "Metadata",
                   {{"state_dict_metadata", "}"}, {"storage_data", "}"}, {"version", version}})));
    EXPECT_TRUE(DcpSource(folder_.path()).facts().empty());
  }
}

TEST_F(DcpFolderTest, PathsThatLeaveTheFolderAreRefused) {
  for (const std::string name : {"../x.distcp", "/etc/passwd", "a/b.distcp", "..", ".", ""}) {
    add_plain("w", place_of(name, 0, 10));
    const std::string text = fault();
    EXPECT_THAT(text, HasSubstr("LS-5020")) << name;
    EXPECT_THAT(text, HasSubstr("which is no name of a file")) << name;
  }
}

TEST_F(DcpFolderTest, FilesThatAreMissingOrTooShortAreNamed) {
  add_plain("w", place_of("__3_0.distcp", 0, 10));
  std::string text = fault();
  EXPECT_THAT(text, HasSubstr("LS-5020"));
  EXPECT_THAT(text, HasSubstr("__3_0.distcp: it is missing; \"w\""));
  for (const auto& [offset, length] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 1'000'000}, {1'000'000, 1}, {1, INT64_MAX}, {INT64_MAX, INT64_MAX}}) {
    put("__0_0.distcp", item({2}, {1, 2}));
    add_plain("w", place_of("__0_0.distcp", offset, length));
    text = fault();
    EXPECT_THAT(text, HasSubstr("LS-5020"));
    EXPECT_THAT(text, HasSubstr("\"w\" should have"));
  }
  put("__0_0.distcp", item({2}, {1, 2}));
  add_plain("w", place_of("__0_0.distcp", -1, 10));
  EXPECT_THAT(fault(), HasSubstr("an item without a place"));
}

TEST_F(DcpFolderTest, ItemsThatAreNotWhatTheMetadataSaysAreNamed) {
  add_plain("w", put("__0_0.distcp", item({3}, {1, 2, 3})));
  EXPECT_THAT(fault(), HasSubstr("the item is F32 [3], .metadata says F32 [2]"));
  add("w", tensor_of({2}, {chunk_of({0}, {2})}, "int32"));
  place("w", size_of({0}), put("__0_0.distcp", item({2}, {1, 2})));
  EXPECT_THAT(fault(), HasSubstr(".metadata says I32 [2]"));
  add_plain("w", put("__0_0.distcp", made::torch_file_of(made::pickle(made::integer(3)), {})));
  EXPECT_THAT(fault(), HasSubstr("the item is no tensor"));
  add_plain("w", put("__0_0.distcp", "nonsense"));
  EXPECT_THAT(fault(), HasSubstr("LS-5012"));
}

TEST_F(DcpFolderTest, ChunksWithoutAnItemAreNamed) {
  add("w", tensor_of({2}, {chunk_of({0}, {1}), chunk_of({1}, {1})}));
  place("w", size_of({0}), put("__0_0.distcp", item({1}, {1})));
  EXPECT_THAT(fault(), HasSubstr("\"w\": the chunk at [1] is in no file"));
  const std::string where = put("__0_0.distcp", item({2}, {1, 2}));
  add_plain("w", where);
  place("w", size_of({0}), where);
  EXPECT_THAT(fault(), HasSubstr("two items at one offset"));
  add_plain("w", where);
  add("w", tensor_of({2}, {}));
  EXPECT_THAT(fault(), HasSubstr("two tensors of this name"));
}

TEST_F(DcpFolderTest, AnOldIndexWithoutOffsetStandsForTheOnlyChunk) {
  add("w", tensor_of({2}, {chunk_of({0}, {2})}));
  place("w", "N", put("__0_0.distcp", item({2}, {1, 2})));
  EXPECT_EQ(source().tensors().size(), 1U);
}

TEST_F(DcpFolderTest, ItemsThatWereCompressedAreRefused) {
  add_plain("w", place_of("__0_0.distcp", 0, 10,
                          {{"transform_descriptors", made::list({made::text("zstd")})}}));
  EXPECT_THAT(fault(), HasSubstr("compressed"));
}

TEST_F(DcpFolderTest, DescriptionsThatAreDamagedAreNamed) {
  add("w", made::integer(3));
  EXPECT_THAT(fault(), HasSubstr("\"w\": neither a tensor nor bytes"));
  add("w", object(kClasses, "TensorStorageMetadata", {{"size", size_of({2})}}));
  EXPECT_THAT(fault(), HasSubstr("\"w\": a tensor without shape and dtype"));
  add("w", tensor_of({-2}, {}));
  EXPECT_THAT(fault(), HasSubstr("has no size in bytes"));
  add("w", tensor_of({std::int64_t{1} << 40, std::int64_t{1} << 40}, {}));
  EXPECT_THAT(fault(), HasSubstr("has no size in bytes"));
  add("w", tensor_of({2}, {made::integer(1)}));
  EXPECT_THAT(fault(), HasSubstr("a chunk without offset and shape"));
}

TEST_F(DcpFolderTest, AGlobalOfAnotherModuleIsRefused) {
  for (const auto& [module, name] : std::vector<std::pair<std::string, std::string>>{
           {"os", "system"},
           {"builtins", "eval"},
           {"torch._utils", "_rebuild_tensor_v2"},
           {"torch.distributed.checkpoint.metadata", "os"}}) {
    folder_.write(".metadata", made::pickle(made::reduce(made::global(module, name), {})));
    EXPECT_THAT(fault_of_folder(), HasSubstr("LS-5013")) << module;
  }
}

TEST_F(DcpFolderTest, AnotherPickleIsNoMetadata) {
  folder_.write(".metadata", made::pickle("}"));
  EXPECT_THAT(fault_of_folder(), HasSubstr("it is no Metadata"));
  folder_.write(".metadata", made::pickle(object(kClasses, "Metadata", {})));
  EXPECT_THAT(fault_of_folder(), HasSubstr("it lists no tensors"));
  folder_.write(".metadata", "x");
  EXPECT_THAT(fault_of_folder(), HasSubstr("LS-5012"));
  std::filesystem::remove(folder_.path() / ".metadata");
  EXPECT_THAT(fault_of_folder(), HasSubstr("LS-5003"));
}

}  // namespace
}  // namespace lockstep::checkpoint
