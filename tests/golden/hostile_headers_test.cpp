// Headers of safetensors, manifests of our own and folders of other frameworks that somebody made
// to break or to trick a reader.
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/foreign/dcp_sink.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/step_sink.h"
#include "tests/golden/hostile.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
namespace made = checkpoint::made;
using nlohmann::ordered_json;

using Texts = std::vector<std::pair<std::string, std::string>>;

// ---- safetensors

std::string safetensors_of(const std::string& header, std::size_t data_bytes) {
  return made::le(header.size(), 8) + header + std::string(data_bytes, 'd');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& range) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         range + "}";
}

/// One tensor, and as many data bytes.
std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& range,
                       std::size_t data_bytes = 8) {
  return safetensors_of("{" + entry("w", dtype, shape, range) + "}", data_bytes);
}

TEST(HostileSafetensors, LengthsAndRangesAreComparedWithTheFile) {
  const std::string good = one_tensor("F32", "[2]", "[0,8]");
  const auto two = [](const std::string& first, const std::string& second, std::size_t bytes) {
    return safetensors_of(
        "{" + entry("a", "F32", "[1]", first) + "," + entry("b", "F32", "[1]", second) + "}",
        bytes);
  };
  const std::string header = good.substr(8, good.size() - 16);
  const std::vector<Hostile> table{
      {"length 2^63-1", made::le(INT64_MAX, 8) + header, {"begins with ff ff"}},
      {"length 2^64-1", made::le(UINT64_MAX, 8) + header, {"begins with ff ff"}},
      {"length of 1 TB", made::le(1ULL << 40U, 8) + header, {"begins with 00 00"}},
      {"length of 1 GB", made::le(1ULL << 30U, 8) + header, {"a header of 1073741824 bytes"}},
      {"longer than the file", made::le(1000, 8) + header, {"a header of 1000 bytes in a file of"}},
      {"shorter than its JSON", made::le(20, 8) + header, {"not valid JSON"}},
      {"cut", good.substr(0, good.size() - 1), {"expected; lost: 1 tensor (\"w\")"}},
      {"cut in the header", good.substr(0, 20), {"a header of"}},
      {"bytes behind", good + "x", {"71 bytes, 70 bytes expected"}},
      {"end before begin", one_tensor("F32", "[2]", "[8,0]"), {"data_offsets is no range"}},
      {"beyond the end", one_tensor("F32", "[2]", "[8,16]"), {"begins at data byte 8"}},
      {"a hole", two("[0,4]", "[8,12]", 12), {"\"b\" begins at data byte 8"}},
      {"overlap", two("[0,4]", "[2,6]", 6), {"\"b\" begins at data byte 2"}},
      {"the same bytes twice", two("[0,4]", "[0,4]", 4), {"begins at data byte 0"}},
      {"range of 2^63",
       one_tensor("F32", "[2]", "[0,9223372036854775808]"),
       {"not a whole number within 64 bits"}},
      {"one number", one_tensor("F32", "[2]", "[8]"), {"data_offsets is no range"}},
      {"three numbers", one_tensor("F32", "[2]", "[0,4,8]"), {"data_offsets is no range"}},
  };
  expect_all_refused(table, "in.safetensors");
}

TEST(HostileSafetensors, ShapesAndTypesAreNotTrusted) {
  const std::string huge = "9223372036854775807";
  const std::vector<Hostile> table{
      {"product overflows",
       one_tensor("F32", "[4611686018427387904,4]", "[0,8]"),
       {"has no size in bytes"}},
      {"product overflows to the size",
       one_tensor("U8", "[4294967296,4294967296,8]", "[0,8]"),
       {"has no size in bytes"}},
      {"huge", one_tensor("F64", "[" + huge + "]", "[0,8]"), {"has no size in bytes"}},
      {"huge and empty",
       one_tensor("F64", "[" + huge + "," + huge + ",0]", "[0,0]", 0),
       {"has no size in bytes"}},
      {"above 64 bits",
       one_tensor("F32", "[18446744073709551616]", "[0,8]"),
       {"not a whole number"}},
      {"negative", one_tensor("F32", "[-2]", "[0,8]"), {"a negative number"}},
      {"1e300", one_tensor("F32", "[1e300]", "[0,8]"), {"not a whole number"}},
      {"1e999", one_tensor("F32", "[1e999]", "[0,8]"), {"a number out of range"}},
      {"a half", one_tensor("F32", "[2.0]", "[0,8]"), {"not a whole number"}},
      {"a text", one_tensor("F32", "[\"2\"]", "[0,8]"), {"not a whole number"}},
      {"no list", one_tensor("F32", "2", "[0,8]"), {"shape: not a list"}},
      {"size disagrees", one_tensor("F32", "[3]", "[0,8]"), {"needs 12 bytes, its range has 8"}},
      {"type disagrees", one_tensor("F64", "[2]", "[0,8]"), {"needs 16 bytes, its range has 8"}},
      {"half a byte", one_tensor("F4", "[1]", "[0,1]", 1), {"has no size in bytes"}},
      {"unknown type", one_tensor("object", "[2]", "[0,8]"), {"unknown dtype"}},
      {"no type", safetensors_of(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", 8), {"is missing"}},
      {"no range", safetensors_of(R"({"w":{"dtype":"F32","shape":[2]}})", 8), {"is missing"}},
  };
  expect_all_refused(table, "in.safetensors");
}

TEST(HostileSafetensors, JsonOfOtherFormsIsRefused) {
  const std::string tensor = entry("w", "F32", "[2]", "[0,8]");
  const auto of = [](const std::string& header) { return safetensors_of(header, 8); };
  const std::string nested =
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":)" + repeated("[", 100'000);
  const std::vector<Hostile> table{
      {"a name twice", of("{" + tensor + "," + tensor + "}"), {"\"w\" twice"}},
      {"a key twice",
       of(R"({"w":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}})"),
       {"\"dtype\" twice"}},
      {"metadata twice", of(R"({"__metadata__":{},"__metadata__":{},)" + tensor + "}"), {"twice"}},
      {"no text in metadata", of(R"({"__metadata__":{"a":1},)" + tensor + "}"), {"not a text"}},
      {"no UTF-8", of("{" + entry("\xff\xfe", "F32", "[2]", "[0,8]") + "}"), {"not valid JSON"}},
      {"half a surrogate",
       of("{" + entry("\\ud800", "F32", "[2]", "[0,8]") + "}"),
       {"not valid JSON"}},
      {"a zero byte", of("{" + tensor + std::string(1, '\0') + "}"), {"zero at byte"}},
      {"nested", of(nested), {"nested too deep"}},
      {"nested objects", of(repeated("{\"a\":", 100'000)), {"nested too deep"}},
      {"text behind", of("{" + tensor + "}{}"), {"not valid JSON"}},
      {"a comment", of("{/**/" + tensor + "}"), {"not valid JSON"}},
      {"cut", of("{" + tensor), {"not valid JSON"}},
      {"a number", of(R"({"w":3})"), {"\"w\": not an object"}},
      {"a long name",
       of("{" + entry(std::string(kMib, 'n'), "F31", "[2]", "[0,8]") + "}"),
       {"nnn..."}},
      {"escape sequences",
       of("{" + entry("\\u001b]0;owned\\u0007\\u009b2J", "F31", "[2]", "[0,8]") + "}"),
       {"]0;owned"}},
  };
  expect_all_refused(table, "in.safetensors");
}

TEST(HostileSafetensors, AnIndexDoesNotLeadOutOfItsFolder) {
  for (const auto& [map, says] : Texts{
           {R"({"w":"../in.safetensors"})", "has no plain file name"},
           {R"({"w":"/etc/passwd"})", "has no plain file name"},
           {R"({"w":".."})", "has no plain file name"},
           {R"({"w":"a/b.safetensors"})", "has no plain file name"},
           {R"({"w":"\u0000.safetensors"})", "has no plain file name"},
           {R"({"w":3})", "has no plain file name"},
           {R"({"w":"gone.safetensors"})", "missing; lost: 1 tensor (\"w\")"},
           {R"({"w":"a.safetensors","w":"b.safetensors"})", "\"w\" twice"},
           {R"({"v":"in.safetensors"})", "not in it"},
           {"[]", "not an object"},
           {R"({},"x":)" + repeated("[", 100'000), "nested too deep"},
       }) {
    SCOPED_TRACE(map.substr(0, 100));
    const TemporaryFolder folder;
    write_file(folder / "in.safetensors", one_tensor("F32", "[2]", "[0,8]"));
    write_file(folder / "in.safetensors.index.json", R"({"weight_map":)" + map + "}");
    expect_refused(folder, folder / "in.safetensors.index.json", folder.path().string(), {says});
  }
}

// ---- Manifests

const std::vector<checkpoint::StoredTensor> kTensors{{"a", "F32", {4, 2}, "parameter"},
                                                     {"b", "F32", {3}, "parameter"}};

void write_all(checkpoint::TensorSink& sink) {
  for (const auto& tensor : sink.order()) {
    const std::string bytes(tensor.bytes(), 'w');
    sink.write(std::as_bytes(std::span(bytes)));
  }
  sink.commit();
}

/// A good step of two files, each with half of "a", and its manifest without the first line.
struct Step {
  explicit Step(const TemporaryFolder& folder) {
    checkpoint::StepSink sink(
        folder / "run", {{"a", "F32", {8, 65536}, "parameter"}, {"b", "F32", {3}, "parameter"}},
        {.ranks = 2});
    write_all(sink);
    path = sink.path().string();
    const std::string text = read_file(path + "/manifest.json");
    body = text.substr(text.find('\n') + 1);
  }
  /// As if the writer had written this.
  void write(const std::string& changed) const {
    write_file(
        path + "/manifest.json",
        "{\"xxh3\":\"" + checkpoint::to_hex(checkpoint::checksum(changed)) + "\",\n" + changed);
  }

  std::string path;
  std::string body;
};

using Change = std::function<void(ordered_json&)>;

ordered_json& piece(ordered_json& m, int number) {
  return m["tensors"][0]["pieces"][static_cast<std::size_t>(number)];
}

/// What each lie in a manifest is answered with.
const std::vector<std::pair<std::string, Change>> kManifestLies{
    {"is no plain file name", [](auto& m) { m["files"]["../x.safetensors"] = 8; }},
    {"is no plain file name", [](auto& m) { m["files"]["/etc/passwd"] = 8; }},
    {"is no plain file name", [](auto& m) { m["files"][".."] = 8; }},
    {"no such file", [](auto& m) { m["files"]["gone.safetensors"] = 8; }},
    {"lies outside its file", [](auto& m) { m["files"].front() = 8; }},
    {"the manifest says 10000000", [](auto& m) { m["files"].front() = 10'000'000; }},
    {"negative", [](auto& m) { m["files"].front() = -8; }},
    {"not in the list of files", [](auto& m) { piece(m, 0)["file"] = "../x"; }},
    {"two pieces in model-00001-of-00002.safetensors",
     [](auto& m) {
       for (const char* key : {"file", "byte_offset"}) piece(m, 1)[key] = piece(m, 0)[key];
     }},
    {"lies outside its file", [](auto& m) { piece(m, 0)["byte_offset"] = INT64_MAX; }},
    {"lies outside its file", [](auto& m) { piece(m, 0)["byte_count"] = INT64_MAX; }},
    {"not a whole number", [](auto& m) { piece(m, 0)["byte_offset"] = UINT64_MAX; }},
    {"not a whole number", [](auto& m) { piece(m, 0)["byte_offset"] = 1e300; }},
    {"negative", [](auto& m) { piece(m, 0)["byte_offset"] = -1; }},
    {"at byte", [](auto& m) { piece(m, 0)["byte_offset"] = 0; }},
    {"does not fit the shape",
     [](auto& m) {
       piece(m, 0)["shape"] = {1LL << 62U, 4};
     }},
    {"does not fit the shape",
     [](auto& m) {
       piece(m, 0)["shape"] = {1, 2};
     }},
    {"not one for each block", [](auto& m) { piece(m, 0)["xxh3"] = ordered_json::array(); }},
    {"not 16 hex digits", [](auto& m) { piece(m, 0)["xxh3"] = "z"; }},
    {"outside the shape",
     [](auto& m) {
       piece(m, 0)["offset"] = {INT64_MAX, 0};
     }},
    {"overlap",
     [](auto& m) {
       piece(m, 1)["offset"] = {0, 0};
     }},
    {"leave 262144 elements out", [](auto& m) { m["tensors"][0]["pieces"].erase(1); }},
    {"more than 4096 pieces",
     [](auto& m) {
       auto& pieces = m["tensors"][0]["pieces"];
       for (int i = 0; i < 5000; ++i) {
         const std::string file = "f" + std::to_string(i);
         m["files"][file] = 10'000'000;
         pieces.push_back(pieces[0]);
         pieces.back()["file"] = file;
       }
     }},
    {"has no size in bytes",
     [](auto& m) {
       m["tensors"][0]["shape"] = {1LL << 62U, 4};
     }},
    {"negative",
     [](auto& m) {
       m["tensors"][0]["shape"] = {-4, 2};
     }},
    {"not a whole number",
     [](auto& m) {
       m["tensors"][0]["shape"] = {4.5, 2};
     }},
    {"dtype: unknown", [](auto& m) { m["tensors"][0]["dtype"] = "object"; }},
    {"does not fit the shape", [](auto& m) { m["tensors"][0]["dtype"] = "F64"; }},
    {"the manifest says I32", [](auto& m) { m["tensors"][0]["dtype"] = "I32"; }},
    {"stands twice", [](auto& m) { m["tensors"].push_back(m["tensors"][0]); }},
    {"\"c\" is not in it", [](auto& m) { m["tensors"][0]["name"] = "c"; }},
    {"is not in it", [](auto& m) { m["tensors"][0]["name"] = "\x1b]0;owned\x07"; }},
    {"nnn...", [](auto& m) { m["tensors"][0]["name"] = std::string(kMib, 'n'); }},
    {"LS-5007", [](auto& m) { m["format_version"] = 99; }},
    {"not a checkpoint of lockstep", [](auto& m) { m["format"] = "other"; }},
    {"step: negative", [](auto& m) { m["step"] = -1; }},
    {"not an object", [](auto& m) { m["config"] = 3; }},
    {"\"tensors\" is missing", [](auto& m) { m.erase("tensors"); }},
};

TEST(HostileManifest, NothingThatItSaysIsTrusted) {
  for (const auto& [says, change] : kManifestLies) {
    SCOPED_TRACE(says);
    const TemporaryFolder folder;
    const Step step(folder);
    ordered_json manifest = ordered_json::parse("{" + step.body);
    change(manifest);
    step.write(manifest.dump().substr(1));
    expect_refused(folder, step.path, step.path, {says});
  }
}

TEST(HostileManifest, TextThatIsNoManifestIsRefused) {
  const TemporaryFolder folder;
  const Step step(folder);
  const std::string path = step.path + "/manifest.json";
  const std::string whole = read_file(path);
  for (const auto& [says, text] : Texts{
           {"its first line holds no checksum", ""},
           {"its first line holds no checksum", "<!DOCTYPE html>"},
           {"its first line holds no checksum", std::string(4096, '\0')},
           {"its first line holds no checksum", "{}"},
           {"does not match its own checksum", whole.substr(0, whole.size() / 2)},
           {"does not match its own checksum", whole + "x"},
       }) {
    SCOPED_TRACE(text.substr(0, 100));
    write_file(path, text);
    expect_refused(folder, step.path, path, {says});
  }
  for (const auto& [says, body] : Texts{
           {"key \"step\" twice", "\"step\":1," + step.body},
           {"not valid JSON", "\"\xff\":1," + step.body},
           {"zero at byte", step.body + std::string(1, '\0')},
           {"nested too deep", "\"x\":" + repeated("[", 100'000)},
           {"nested too deep", "\"x\":" + repeated("{\"a\":", 100'000)},
           {"a number out of range", "\"x\":1e999," + step.body},
           {"not valid JSON", step.body.substr(0, step.body.size() / 2)},
       }) {
    SCOPED_TRACE(body.substr(0, 100));
    step.write(body);
    expect_refused(folder, step.path, path, {says});
  }
}

// ---- Folders of other frameworks

/// Writes a good folder of torch.distributed.checkpoint. \returns it, and what is outside of it.
std::string write_dcp(const TemporaryFolder& folder) {
  checkpoint::DcpSink sink(folder / "dcp", kTensors);
  write_all(sink);
  write_file(folder / "outside", "a text that is nobody's business");
  return folder / "dcp";
}

std::string replaced_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(HostileFolder, NamesInMetadataOfDcpDoNotLeaveTheFolder) {
  const TemporaryFolder folder;
  const std::string dcp = write_dcp(folder);
  const std::string good = read_file(dcp + "/.metadata");
  for (const std::string& file :
       {std::string("../outside"), folder / "outside", std::string("/etc/passwd"),
        std::string(".."), std::string("."), std::string(), std::string("x/../../outside"),
        std::string("a\0b", 3), std::string(kMib, 'f')}) {
    SCOPED_TRACE(file.substr(0, 100));
    write_file(dcp + "/.metadata",
               replaced_all(good, made::text("__0_0.distcp"), made::text(file)));
    expect_refused(folder, dcp, dcp + "/.metadata", {"LS-5020", "which is no name of a file"});
  }
  for (const auto& [says, text] : Texts{
           {"LS-5012", ""},
           {"LS-5012", "<!DOCTYPE html>"},
           {"LS-5012", good.substr(0, good.size() / 2)},
           {"LS-5012", good + "x"},
           {"it is no Metadata", made::pickle("}")},
           {"os.system", made::pickle(made::reduce(made::global("os", "system"),
                                                   {made::text("touch " + (folder / "mark"))}))},
           {"torch._utils._rebuild_tensor_v2",
            made::pickle(made::tensor(made::storage("FloatStorage", "0", 1), 0, {1}, {1}))},
           {"a name of more than 1024 bytes",
            replaced_all(good, made::text("a"), made::text(std::string(kMib, 'n')))},
           {"overlaps", replaced_all(good, made::text("offset") + "K" + std::string(1, '\0'),
                                     made::text("offset") + "K\x01")},
       }) {
    SCOPED_TRACE(says);
    write_file(dcp + "/.metadata", text);
    expect_refused(folder, dcp, dcp + "/.metadata", {says});
  }
}

/// Of each, what stands at `path` instead of the file that was there.
const std::vector<std::pair<std::string, std::function<void(const fs::path&)>>> kInstead{
    {"nothing", [](const fs::path&) {}},
    {"a link to itself", [](const fs::path& path) { fs::create_symlink(path, path); }},
    {"a link to nothing", [](const fs::path& path) { fs::create_symlink("gone", path); }},
    {"a link to a device", [](const fs::path& path) { fs::create_symlink("/dev/zero", path); }},
    {"a link to a folder", [](const fs::path& path) { fs::create_symlink("/", path); }},
    {"a pipe", [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
    {"a link to a text", [](const fs::path& path) { fs::create_symlink("../outside", path); }},
    {"a page", [](const fs::path& path) { write_file(path, "<!DOCTYPE html>"); }},
    {"zeros", [](const fs::path& path) { write_file(path, std::string(4096, '\0')); }},
};

/// The file is named, and nothing of what a link leads to is shown.
void expect_refused_instead(const TemporaryFolder& folder, const std::string& path,
                            const std::string& file) {
  for (const auto& [name, put] : kInstead) {
    SCOPED_TRACE(name);
    fs::remove(file);
    put(file);
    expect_refused(folder, path, file, {});
    EXPECT_EQ(ckpt({"verify", path}).err.find("nobody's business"), std::string::npos);
  }
}

TEST(HostileFolder, WhatStandsInPlaceOfAFileOfDcpIsNamed) {
  const TemporaryFolder folder;
  const std::string dcp = write_dcp(folder);
  expect_refused_instead(folder, dcp, dcp + "/__0_0.distcp");
}

TEST(HostileFolder, WhatStandsInPlaceOfAFileOfOursIsNamed) {
  const TemporaryFolder folder;
  const Step step(folder);
  write_file(folder / "run/outside", "a text that is nobody's business");
  expect_refused_instead(folder, step.path, step.path + "/model-00001-of-00002.safetensors");
}

/// One rank of ZeRO 2 with a parameter of two elements.
struct DeepSpeed {
  explicit DeepSpeed(const TemporaryFolder& folder) : dir(folder / "ds"), tag(folder / "ds/step1") {
    fs::create_directories(tag);
    write_file(dir + "/latest", "step1\n");
    write_file(folder / "ds/outside", "a text that is nobody's business");
    const std::string flat = made::tensor(made::storage("FloatStorage", "0", 2), 0, {2}, {1});
    const std::string inner = made::dict({{"zero_stage", made::integer(2)},
                                          {"partition_count", made::integer(1)},
                                          {"single_partition_of_fp32_groups", made::list({flat})}});
    optimizer = made::pickle(made::dict({{"optimizer_state_dict", inner}}));
    model = made::dict({{"module", made::dict({})},
                        {"buffer_names", made::list({})},
                        {"param_shapes", made::list({made::dict({{"w", made::numbers({2})}})})}});
    put(tag + "/zero_pp_rank_0_mp_rank_00_optim_states.pt", optimizer);
    put(tag + "/mp_rank_00_model_states.pt", made::pickle(model));
  }
  static void put(const std::string& file, const std::string& pickle) {
    write_file(file, made::torch_file_of(pickle, {"12345678"}));
  }

  std::string dir;
  std::string tag;
  std::string optimizer;
  std::string model;
};

TEST(HostileFolder, WhatStandsInPlaceOfAFileOfDeepSpeedIsNamed) {
  const TemporaryFolder folder;
  const DeepSpeed good(folder);
  EXPECT_EQ(ckpt({"verify", good.dir}).exit_code, 0);
  for (const std::string& path : {good.dir, good.tag}) {
    const std::string file = good.tag + "/zero_pp_rank_0_mp_rank_00_optim_states.pt";
    for (const auto& [name, put] : kInstead) {
      SCOPED_TRACE(name);
      fs::remove(file);
      put(file);
      expect_refused(folder, path, name == "nothing" ? good.tag : file, {});
    }
  }
}

TEST(HostileFolder, LatestOfDeepSpeedLeadsNowhereElse) {
  const TemporaryFolder folder;
  const DeepSpeed good(folder);
  fs::create_directories(folder / "other");
  fs::copy(good.tag, folder / "other", fs::copy_options::recursive);
  for (const std::string& text :
       {std::string("../other"), folder / "other", std::string(".."), std::string("."),
        std::string("step1/../../other"), std::string(), std::string("gone"),
        std::string("\x1b]0;owned\x07"), std::string("a\0b", 3), std::string(kMib, 't')}) {
    SCOPED_TRACE(text.substr(0, 100));
    write_file(good.dir + "/latest", text);
    expect_refused(folder, good.dir, good.dir, {"latest"});
  }
}

TEST(HostileFolder, WhatFilesOfDeepSpeedSayIsNotTrusted) {
  const TemporaryFolder folder;
  const DeepSpeed good(folder);
  const std::string optimizer = good.tag + "/zero_pp_rank_0_mp_rank_00_optim_states.pt";
  const std::string model = good.tag + "/mp_rank_00_model_states.pt";
  const auto state = [&](const std::string& from, const std::string& to) {
    return std::pair(optimizer, replaced_all(good.optimizer, from, to));
  };
  const auto described = [&](const std::string& shape) {
    return std::pair(model, replaced_all(made::pickle(good.model), made::numbers({2}), shape));
  };
  const std::string buffer =
      made::tensor(made::storage("FloatStorage", "0", 1), 0, {1LL << 40}, {0});
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> table{
      {"os.system",
       {optimizer, made::pickle(made::reduce(made::global("os", "system"),
                                             {made::text("touch " + (folder / "mark"))}))}},
      {"its partition_count is 9", state(made::text("partition_count") + made::integer(1),
                                         made::text("partition_count") + made::integer(9))},
      {"its zero_stage is -1", state(made::integer(2) + made::text("partition_count"),
                                     made::integer(-1) + made::text("partition_count"))},
      {"should have 8,000 bytes",
       state(made::storage("FloatStorage", "0", 2), made::storage("FloatStorage", "0", 2000))},
      {"is no flat tensor", state(made::numbers({2}) + made::numbers({1}),
                                  made::numbers({1LL << 40}) + made::numbers({0}))},
      {"has 3 elements, and only 2 are left", described(made::numbers({3}))},
      {"has no shape", described(made::numbers({-2}))},
      {"has no shape", described(made::numbers({1LL << 40, 1LL << 40}))},
      {"1000 times the bytes of the files",
       {model, made::pickle(made::dict(
                   {{"module", made::dict({{"mean", buffer}})},
                    {"buffer_names", made::list({made::text("mean")})},
                    {"param_shapes", made::list({made::dict({{"w", made::numbers({2})}})})}}))}},
      {"a name of more than 1024 bytes",
       {model, replaced_all(made::pickle(good.model), made::text("w"),
                            made::text(std::string(kMib, 'w')))}},
  };
  for (const auto& [says, change] : table) {
    SCOPED_TRACE(says);
    const std::string whole = read_file(change.first);
    DeepSpeed::put(change.first, change.second);
    expect_refused(folder, good.dir, good.tag, {says});
    write_file(change.first, whole);
  }
}

}  // namespace
}  // namespace lockstep::test
