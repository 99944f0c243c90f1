#include "lockstep/checkpoint/foreign/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

std::string float_storage(const std::string& key, std::int64_t elements) {
  return made::storage("FloatStorage", key, elements);
}

/// A contiguous vector that is all of storage "0".
std::string vector_of(std::int64_t elements) {
  return made::tensor(float_storage("0", elements), 0, {elements}, {1});
}

std::string counting_bytes(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string bytes_of(const TensorSource& source, std::size_t index) {
  std::string bytes(source.tensors()[index].bytes(), '?');
  source.read(index, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class TorchFileTest : public ::testing::Test {
 protected:
  /// A file that holds this value, with these storages.
  std::filesystem::path write(const std::string& value, const std::vector<std::string>& storages) {
    return folder_.write("x.pt", made::torch_file_of(made::pickle(value), storages));
  }
  TorchFileSource source(const std::string& value, const std::vector<std::string>& storages) {
    return TorchFileSource(write(value, storages));
  }
  /// Code and text of what the reader says against the file; empty when it takes it.
  std::string fault_of_file(const std::filesystem::path& path) {
    try {
      const TorchFileSource opened(path);
      return "";
    } catch (const BadData& error) {
      EXPECT_THAT(error.problems()[0].where, HasSubstr("x.pt"));
      return error.problems()[0].code + " " + error.problems()[0].what;
    }
  }
  std::string fault_of(const std::string& value, const std::vector<std::string>& storages) {
    return fault_of_file(write(value, storages));
  }

  made::TestFolder folder_;
};

TEST_F(TorchFileTest, AStateDictIsReadByName) {
  const auto opened = source(
      made::ordered_dict({{"w", made::tensor(float_storage("0", 6), 0, {2, 3}, {3, 1})},
                          {"n", made::tensor(made::storage("LongStorage", "1", 1), 0, {}, {})}}),
      {counting_bytes(24), counting_bytes(8)});
  EXPECT_EQ(opened.format(), "torch");
  ASSERT_EQ(opened.tensors().size(), 2U);
  EXPECT_EQ(opened.tensors()[0].name, "w");
  EXPECT_EQ(opened.tensors()[0].dtype, "F32");
  EXPECT_EQ(opened.tensors()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(bytes_of(opened, 0), counting_bytes(24));
  EXPECT_EQ(opened.tensors()[1].dtype, "I64");
  EXPECT_EQ(opened.tensors()[1].shape, Shape{});
  EXPECT_EQ(bytes_of(opened, 1), counting_bytes(8));
}

TEST_F(TorchFileTest, NestedDictsAndListsGiveDottedNames) {
  const std::string zero = made::integer(0);
  const auto opened = source(
      made::dict(
          {{"model", made::ordered_dict({{"b.w", vector_of(1)}})},
           {"optimizer",
            "}(" + made::text("state") + "}(" + zero +
                made::dict({{"exp_avg", made::tensor(float_storage("1", 1), 0, {1}, {1})}}) + "uu"},
           {"list", made::list({"N", made::tensor(float_storage("2", 1), 0, {1}, {1})})}}),
      {"aaaa", "bbbb", "cccc"});
  ASSERT_EQ(opened.tensors().size(), 3U);
  EXPECT_EQ(opened.tensors()[0].name, "model.b.w");
  EXPECT_EQ(opened.tensors()[1].name, "optimizer.state.0.exp_avg");
  EXPECT_EQ(opened.tensors()[2].name, "list.1");
  EXPECT_EQ(bytes_of(opened, 2), "cccc");
}

TEST_F(TorchFileTest, EveryElementTypeHasItsName) {
  const std::vector<std::tuple<std::string, std::string, int>> types{
      {"FloatStorage", "F32", 4},  {"HalfStorage", "F16", 2},        {"BFloat16Storage", "BF16", 2},
      {"DoubleStorage", "F64", 8}, {"LongStorage", "I64", 8},        {"IntStorage", "I32", 4},
      {"ShortStorage", "I16", 2},  {"CharStorage", "I8", 1},         {"ByteStorage", "U8", 1},
      {"BoolStorage", "BOOL", 1},  {"ComplexFloatStorage", "C64", 8}};
  for (const auto& [storage, dtype, bytes] : types) {
    const auto opened = source(made::tensor(made::storage(storage, "0", 2), 1, {1}, {1}),
                               {counting_bytes(static_cast<std::size_t>(2 * bytes))});
    EXPECT_EQ(opened.tensors()[0].dtype, dtype);
    EXPECT_EQ(bytes_of(opened, 0), counting_bytes(2U * bytes).substr(bytes));
  }
}

std::string untyped(const std::string& dtype, std::int64_t bytes, std::int64_t offset,
                    std::int64_t elements) {
  return made::rebuild("_rebuild_tensor_v3",
                       {made::storage("UntypedStorage", "0", bytes), made::integer(offset),
                        made::numbers({elements}), made::numbers({1}), "\x89",
                        made::ordered_dict({}), made::global("torch", dtype)});
}

TEST_F(TorchFileTest, TypesOfUntypedStoragesComeFromTheTensor) {
  const auto opened = source(untyped("float8_e4m3fn", 4, 1, 3), {"abcd"});
  EXPECT_EQ(opened.tensors()[0].dtype, "F8_E4M3");
  EXPECT_EQ(bytes_of(opened, 0), "bcd");
  EXPECT_EQ(source(untyped("float8_e5m2", 4, 0, 4), {"abcd"}).tensors()[0].dtype, "F8_E5M2");
  const auto wide = source(untyped("uint16", 8, 1, 3), {counting_bytes(8)});
  EXPECT_EQ(wide.tensors()[0].dtype, "U16");
  EXPECT_EQ(bytes_of(wide, 0), counting_bytes(8).substr(2));
  EXPECT_THAT(fault_of(untyped("uint16", 8, 1, 4), {counting_bytes(8)}),
              HasSubstr("leaves its storage"));
  EXPECT_THAT(fault_of(untyped("uint16", 7, 0, 4), {counting_bytes(7)}),
              HasSubstr("leaves its storage"));
}

TEST_F(TorchFileTest, AnythingThatHoldsATensorIsOne) {
  const std::string tensor = vector_of(1);
  const auto parameter = source(
      made::rebuild("_rebuild_parameter", {tensor, "\x88", made::ordered_dict({})}), {"abcd"});
  EXPECT_EQ(parameter.tensors()[0].kind, "parameter");
  EXPECT_EQ(parameter.tensors()[0].name, "value");
  const std::string with_state =
      made::rebuild("_rebuild_parameter_with_state",
                    {tensor, "\x88", made::ordered_dict({}), made::dict({{"tag", "N"}})});
  EXPECT_EQ(source(with_state, {"abcd"}).tensors()[0].kind, "parameter");
  const std::string old = made::rebuild(
      "_rebuild_tensor",
      {float_storage("0", 1), made::integer(0), made::numbers({1}), made::numbers({1})});
  EXPECT_EQ(bytes_of(source(old, {"abcd"}), 0), "abcd");
  const auto typed = [&](const std::string& type) {
    const std::string args =
        made::tuple({float_storage("0", 1), made::integer(0), made::numbers({1}),
                     made::numbers({1}), "\x89", made::ordered_dict({})});
    return made::reduce(made::global("torch._tensor", "_rebuild_from_type_v2"),
                        {made::global("torch._utils", "_rebuild_tensor_v2"), type, args, "}"});
  };
  EXPECT_EQ(source(typed(made::global("torch", "Tensor")), {"abcd"}).tensors()[0].kind, "");
  EXPECT_EQ(
      source(typed(made::global("torch.nn.parameter", "Parameter")), {"abcd"}).tensors()[0].kind,
      "parameter");
  const auto subclass =
      source(typed(made::global("torch.distributed.tensor", "DTensor")), {"abcd"});
  EXPECT_EQ(subclass.tensors().size(), 0U);
  EXPECT_THAT(subclass.skipped()[0].why, HasSubstr("DTensor"));
}

TEST_F(TorchFileTest, ViewsAreReadRowMajor) {
  const std::string bytes = counting_bytes(12);
  const auto storage = made::storage("ByteStorage", "0", 12);
  const auto view = [&](std::int64_t offset, std::vector<std::int64_t> shape,
                        std::vector<std::int64_t> stride) {
    return bytes_of(source(made::tensor(storage, offset, shape, stride), {bytes}), 0);
  };
  EXPECT_EQ(view(0, {3, 4}, {4, 1}), bytes);
  EXPECT_EQ(view(0, {4, 3}, {1, 4}), "\x00\x04\x08\x01\x05\x09\x02\x06\x0a\x03\x07\x0b"s);
  EXPECT_EQ(view(5, {2, 2}, {4, 2}), "\x05\x07\x09\x0b"s);
  EXPECT_EQ(view(2, {2, 3}, {1, 0}), "\x02\x02\x02\x03\x03\x03"s);
  EXPECT_EQ(view(11, {}, {}), "\x0b"s);
  EXPECT_EQ(view(12, {0}, {1}), "");
  EXPECT_EQ(view(0, {2, 0}, {99, 99}), "");
}

TEST_F(TorchFileTest, TwoNamesOfOneViewAreAliases) {
  const std::string storage = float_storage("0", 4);
  const auto opened = source(made::ordered_dict({{"a", made::tensor(storage, 0, {4}, {1})},
                                                 {"b", made::tensor(storage, 0, {4}, {1})},
                                                 {"c", made::tensor(storage, 0, {2, 2}, {2, 1})},
                                                 {"d", made::tensor(storage, 1, {3}, {1})},
                                                 {"e", made::tensor(storage, 0, {4}, {1})}}),
                             {counting_bytes(16)});
  ASSERT_EQ(opened.tensors().size(), 3U);
  EXPECT_THAT(opened.tensors()[0].aliases, ::testing::ElementsAre("b", "e"));
  EXPECT_EQ(opened.tensors()[1].name, "c");
  EXPECT_EQ(bytes_of(opened, 2), counting_bytes(16).substr(4));
}

TEST_F(TorchFileTest, ScalarsBecomeFacts) {
  const auto opened = source(
      made::dict(
          {{"epoch", made::integer(3)},
           {"loss", "G\x3f\xd0" + std::string(6, '\0')},
           {"name", made::text("é")},
           {"flag", "\x88"},
           {"none", "N"},
           {"betas", made::tuple({"K\x01", "K\x02"})},
           {"size", made::reduce(made::global("torch", "Size"), {made::numbers({2, 3})})},
           {"device", made::reduce(made::global("torch", "device"), {made::text("cuda"), "K\x01"})},
           {"dtype", made::global("torch", "bfloat16")},
           {"long", made::text(std::string(1000, 'x'))}}),
      {});
  const auto facts = opened.facts();
  EXPECT_EQ(facts.at("epoch"), "3");
  EXPECT_EQ(facts.at("loss"), "0.25");
  EXPECT_EQ(facts.at("name"), "é");
  EXPECT_EQ(facts.at("flag"), "true");
  EXPECT_EQ(facts.count("none"), 0U);
  EXPECT_EQ(facts.at("betas"), "[1, 2]");
  EXPECT_EQ(facts.at("size"), "[2, 3]");
  EXPECT_EQ(facts.at("device"), "cuda:1");
  EXPECT_EQ(facts.at("dtype"), "torch.bfloat16");
  EXPECT_LT(facts.at("long").size(), 300U);
}

TEST_F(TorchFileTest, FactsAndSkippedEntriesDoNotGrowWithoutEnd) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 5000; ++i) entries.emplace_back("n" + std::to_string(i), "K\x01");
  for (int i = 0; i < 5000; ++i)
    entries.emplace_back("a" + std::to_string(i), made::global("numpy", "ndarray"));
  const auto opened = source(made::dict(entries), {});
  EXPECT_EQ(opened.facts().size(), kMaxTorchFacts);
  EXPECT_LT(opened.skipped().size(), 2000U);
  EXPECT_THAT(opened.skipped().back().why, HasSubstr("8,720 more"));
}

TEST_F(TorchFileTest, WhatHoldsNoTensorIsListedWithItsClass) {
  const auto opened = source(
      made::dict(
          {{"rng", made::reduce(made::global("numpy.core.multiarray", "_reconstruct"),
                                {made::global("numpy", "ndarray"), "N"})},
           {"args",
            made::global("argparse", "Namespace") + ")\x81" + made::dict({{"a", "N"}}) + "b"},
           {"q", made::rebuild("_rebuild_qtensor", {"N"})},
           {"sparse", made::rebuild("_rebuild_sparse_tensor", {"N"})},
           {"meta", made::rebuild("_rebuild_meta_tensor_no_storage", {"N"})},
           {"c128", made::tensor(made::storage("ComplexDoubleStorage", "0", 1), 0, {1}, {1})},
           {"int8", made::tensor(made::storage("QInt8Storage", "0", 1), 0, {1}, {1})},
           {"bare", float_storage("0", 4)},
           {"raw",
            "C\x03"
            "abc"},
           {"param", made::rebuild("_rebuild_parameter",
                                   {made::global("torch.distributed.tensor", "DTensor") + ")R"})}}),
      {counting_bytes(16)});
  EXPECT_EQ(opened.tensors().size(), 0U);
  std::map<std::string, std::string> why;
  for (const SkippedEntry& entry : opened.skipped()) why[entry.name] = entry.why;
  EXPECT_EQ(why.at("rng"), "numpy.core.multiarray._reconstruct");
  EXPECT_EQ(why.at("args"), "argparse.Namespace");
  EXPECT_EQ(why.at("q"), "a quantized tensor");
  EXPECT_EQ(why.at("int8"), "a quantized tensor");
  EXPECT_EQ(why.at("sparse"), "a sparse tensor");
  EXPECT_EQ(why.at("meta"), "a tensor without data");
  EXPECT_THAT(why.at("c128"), HasSubstr("complex128"));
  EXPECT_THAT(why.at("bare"), HasSubstr("storage"));
  EXPECT_EQ(why.at("raw"), "3 bytes");
  EXPECT_EQ(why.at("param"), "torch.distributed.tensor.DTensor");
}

TEST_F(TorchFileTest, AConjugatedViewIsNotTakenForItsBytes) {
  const auto with = [&](const std::string& bit) {
    return made::rebuild(
        "_rebuild_tensor_v2",
        {made::storage("ComplexFloatStorage", "0", 1), made::integer(0), made::numbers({1}),
         made::numbers({1}), "\x89", made::ordered_dict({}), made::dict({{"conj", bit}})});
  };
  EXPECT_EQ(source(with("\x88"), {counting_bytes(8)}).tensors().size(), 0U);
  EXPECT_EQ(source(with("\x89"), {counting_bytes(8)}).tensors().size(), 1U);
}

TEST_F(TorchFileTest, ViewsOutsideTheirStorageAreRefused) {
  const auto fault = [&](std::int64_t offset, std::vector<std::int64_t> shape,
                         std::vector<std::int64_t> stride) {
    return fault_of(
        made::ordered_dict({{"w", made::tensor(float_storage("0", 6), offset, shape, stride)}}),
        {counting_bytes(24)});
  };
  constexpr std::int64_t kMost = INT64_MAX;
  EXPECT_EQ(fault(0, {6}, {1}), "");
  EXPECT_THAT(fault(1, {6}, {1}), HasSubstr("LS-5012 w: "));
  for (const std::string& message :
       {fault(0, {7}, {1}), fault(0, {2, 3}, {4, 1}), fault(6, {}, {}), fault(-1, {1}, {1}),
        fault(0, {-1}, {1}), fault(5, {2}, {-1}), fault(0, {2}, {kMost}),
        fault(0, {kMost, kMost}, {1, 1}), fault(0, {kMost, kMost, 2}, {0, 0, 1}),
        fault(kMost, {1}, {1}), fault(kMost, {2}, {kMost}), fault(0, {2, 3}, {1}),
        fault(0, {kMost, kMost, 0}, {1, 1, 1})}) {
    EXPECT_THAT(message, HasSubstr("LS-5012"));
  }
}

TEST_F(TorchFileTest, StoragesMustBeThereAndLargeEnough) {
  EXPECT_THAT(fault_of(made::tensor(float_storage("7", 1), 0, {1}, {1}), {"abcd"}),
              HasSubstr("not in the archive"));
  EXPECT_THAT(fault_of(vector_of(2), {"abcd"}), HasSubstr("should have 8 bytes, it has 4"));
  EXPECT_THAT(fault_of(made::tensor(float_storage("../data.pkl", 1), 0, {1}, {1}), {"abcd"}),
              HasSubstr("not in the archive"));
  EXPECT_THAT(fault_of(made::tensor(float_storage("0", INT64_MAX), 0, {1}, {1}), {"abcd"}),
              HasSubstr("LS-5012"));
  EXPECT_THAT(fault_of(made::tensor(float_storage("0", -1), 0, {1}, {1}), {"abcd"}),
              HasSubstr("LS-5012"));
}

TEST_F(TorchFileTest, DescriptionsOfAnotherFormAreRefused) {
  const std::string stored = float_storage("0", 1);
  for (const std::string& bad :
       {made::rebuild("_rebuild_tensor_v2", {}), made::rebuild("_rebuild_tensor_v2", {stored}),
        made::rebuild("_rebuild_tensor_v2", {"N", "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_tensor_v2", {stored, "N", ")", ")"}),
        made::rebuild("_rebuild_tensor_v2", {stored, "K\0"s, "N", ")"}),
        made::rebuild("_rebuild_tensor_v2",
                      {stored, "K\0"s, made::tuple({"N"}), made::tuple({"N"})}),
        made::rebuild("_rebuild_tensor_v2", {"NQ", "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_tensor_v2", {")Q", "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_tensor_v2", {made::text("storage") + "Q", "K\0"s, ")", ")"}),
        made::rebuild(
            "_rebuild_tensor_v2",
            {made::tuple({made::text("storage"), "N", "N", "N", "N"}) + "Q", "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_tensor_v2", {made::storage("Size", "0", 1), "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_tensor_v3", {stored, "K\0"s, ")", ")", "N", "N", "N"}),
        made::rebuild("_rebuild_tensor_v2",
                      {made::storage("UntypedStorage", "0", 4), "K\0"s, ")", ")"}),
        made::rebuild("_rebuild_parameter", {}), made::rebuild("_rebuild_parameter", {"N"}),
        made::rebuild("_rebuild_parameter", {made::ordered_dict({})}),
        made::reduce(made::global("torch._tensor", "_rebuild_from_type_v2"), {"N", "N"}),
        made::reduce(made::global("torch._tensor", "_rebuild_from_type_v2"),
                     {made::global("torch", "Size"), made::global("torch", "Tensor"), ")", "N"}),
        made::reduce(made::global("torch._tensor", "_rebuild_from_type_v2"),
                     {made::global("torch._tensor", "_rebuild_from_type_v2"),
                      made::global("torch", "Tensor"), ")", "N"})}) {
    EXPECT_THAT(fault_of(bad, {"abcd"}), HasSubstr("LS-5012")) << bad;
  }
}

TEST_F(TorchFileTest, ExpandedTensorsAreTakenUpToALimit) {
  const auto expanded = [&](std::int64_t rows) {
    return made::tensor(float_storage("0", 1), 0, {rows, 1000}, {0, 0});
  };
  const auto opened = source(expanded(10), {"abcd"});
  std::string bytes(6, ' ');
  opened.read(0, 39'993, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "bcdabc");
  EXPECT_EQ(fault_of(expanded(100'000), {"abcd"}), "");
  EXPECT_THAT(fault_of(expanded(1'000'000), {"abcd"}),
              HasSubstr("1000 times the bytes of the file"));
  EXPECT_THAT(fault_of(made::list({expanded(100'000), expanded(200'000)}), {"abcd"}),
              HasSubstr("1000 times"));
}

TEST_F(TorchFileTest, AStorageIsKnownByAShortKey) {
  const auto fault = [&](std::size_t bytes) {
    const std::string key(bytes, 'k');
    return fault_of(made::tensor(made::storage("FloatStorage", key, 1), 0, {1}, {1}), {"abcd"});
  };
  EXPECT_THAT(fault(256), HasSubstr("is not in the archive"));
  EXPECT_THAT(fault(257), HasSubstr("a storage without a key"));
}

TEST_F(TorchFileTest, TwoTensorsOfOneNameAreRefused) {
  EXPECT_THAT(
      fault_of(made::dict({{"a.b", vector_of(1)}, {"a", made::dict({{"b", vector_of(1)}})}}),
               {"abcd"}),
      HasSubstr("two tensors are named a.b"));
  EXPECT_THAT(fault_of(made::dict({{"a", vector_of(1)}, {"a", vector_of(1)}}), {"abcd"}),
              HasSubstr("named a"));
}

TEST_F(TorchFileTest, NamesAreLimitedInLengthAndInSum) {
  EXPECT_THAT(fault_of(made::dict({{std::string(2000, 'n'), vector_of(1)}}), {"abcd"}),
              HasSubstr("longer than"));
  // One tensor under many names, through the memo.
  std::string many = "](" + vector_of(1) + "q\x01";
  for (int i = 0; i < 60'000; ++i) many += "h\x01";
  many += "eq\x02";
  std::string all = "](" + many;
  for (int i = 0; i < 20; ++i) all += "h\x02";
  EXPECT_THAT(fault_of(all + "e", {"abcd"}), HasSubstr("LS-5012"));
}

TEST_F(TorchFileTest, TuplesAsKeysAreSkippedAndOthersAreText) {
  const auto opened = source("}((K\x01t" + vector_of(1) + "K\x02N\x88K\x05u", {"abcd"});
  EXPECT_EQ(opened.tensors().size(), 0U);
  EXPECT_THAT(opened.skipped()[0].why, HasSubstr("a key that is a tuple"));
  EXPECT_EQ(opened.facts().at("true"), "5");
}

TEST_F(TorchFileTest, AGlobalOfAnyProgramIsRefusedWithNothingRun) {
  EXPECT_THAT(fault_of(made::dict({{"w", made::reduce(made::global("os", "system"),
                                                      {made::text("touch evil")})}}),
                       {}),
              HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of(made::global("__main__", "Model") + ")\x81", {}),
              HasSubstr("__main__.Model"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);  // x.pt
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(TorchFileTest, MoreGlobalsAreTakenWhereTheCallerSaysSo) {
  const auto path =
      write(made::dict({{"z", made::global("deepspeed.zero", "Stage") + "K\x01\x85R"}}), {});
  EXPECT_THAT(fault_of_file(path), HasSubstr("LS-5013"));
  const TorchFileSource skipping(path, {{}, {"deepspeed.zero.Stage"}});
  EXPECT_EQ(skipping.skipped()[0].why, "deepspeed.zero.Stage");
  const TorchFileSource allowing(path, {{"deepspeed.zero.Stage"}, {}});
  EXPECT_EQ(allowing.archive().root().find("z")->args()->items()[0]->integer(), 1);
}

TEST_F(TorchFileTest, OtherArchivesAreNamedForWhatTheyAre) {
  const auto fault = [&](const std::string& bytes) {
    return fault_of_file(folder_.write("x.pt", bytes));
  };
  EXPECT_THAT(fault(made::zip_of({{"word/document.xml", "x"}})), HasSubstr("no data.pkl"));
  EXPECT_THAT(fault(made::zip_of({{"data.pkl", made::pickle("N")}})), HasSubstr("no data.pkl"));
  EXPECT_THAT(fault(made::zip_of({{"a/data.pkl", "x"}, {"b/data.pkl", "x"}})),
              HasSubstr("more than one"));
  EXPECT_THAT(fault(made::zip_of({{"a/data.pkl", "x"}, {"a/constants.pkl", "x"}})),
              HasSubstr("TorchScript"));
  EXPECT_THAT(fault(made::zip_of({{"a/data.pkl", made::pickle("N")}, {"a/byteorder", "big"}})),
              HasSubstr("big-endian"));
  EXPECT_THAT(fault(made::zip_of({{"a/data.pkl", made::pickle("N")}, {"a/byteorder", "mixed"}})),
              HasSubstr("neither"));
  EXPECT_THAT(
      fault(made::zip_of({{.name = "a/data.pkl", .bytes = made::pickle("N"), .method = 8}})),
      HasSubstr("compressed"));
  EXPECT_THAT(fault(made::zip_of({{"a/data.pkl", made::pickle(vector_of(1))},
                                  {.name = "a/data/0", .bytes = "abcd", .method = 8}})),
              HasSubstr("compressed"));
  EXPECT_EQ(fault(made::zip_of({{"a/data.pkl", made::pickle("N")}})), "");  // older: no byteorder
  EXPECT_THAT(fault("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
              HasSubstr("1.6"));
  EXPECT_THAT(fault(""), HasSubstr("empty"));
}

TEST_F(TorchFileTest, AnArchiveWithinAFileIsReadInPlace) {
  const std::string item = made::torch_file_of(made::pickle(vector_of(2)), {"abcdefgh"});
  const InputFile file(folder_.write("x.pt", "before" + item + item));
  const TorchArchive archive(file, 6 + item.size(), item.size());
  const auto view = archive.tensor_of(archive.root());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->shape, Shape{2});
  std::string bytes(5, ' ');
  archive.read(*view, 3, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "defgh");
}

TEST_F(TorchFileTest, EveryTruncationIsFound) {
  const std::string whole = made::torch_file_of(made::pickle(vector_of(2)), {"abcdefgh"});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(fault_of_file(folder_.write("x.pt", whole.substr(0, bytes))), HasSubstr("LS-5012"))
        << bytes;
  }
}

TEST_F(TorchFileTest, AChangedPickleIsFoundByItsChecksum) {
  std::string whole =
      made::torch_file_of(made::pickle(made::dict({{"w", vector_of(2)}})), {"abcdefgh"});
  whole[whole.find("X\1\0\0\0w"s) + 5] = 'v';
  EXPECT_THAT(fault_of_file(folder_.write("x.pt", whole)), HasSubstr("LS-5005"));
}

}  // namespace
}  // namespace lockstep::checkpoint
