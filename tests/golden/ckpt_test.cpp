// `lockstep ckpt`: checkpoints of any format looked at, checked, converted, compared and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/torch_file_sink.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/safetensors_sink.h"
#include "lockstep/checkpoint/format/step_sink.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
namespace made = checkpoint::made;
using checkpoint::StoredTensor;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

ProgramResult ckpt(std::vector<std::string> words, const ProgramOptions& options = {}) {
  words.insert(words.begin(), {program("lockstep"), "ckpt"});
  return run_program(words, options);
}

/// The document of a call that ends with `exit_code`.
json answered(std::vector<std::string> words, int exit_code = 0) {
  words.emplace_back("--json");
  const ProgramResult result = ckpt(words);
  EXPECT_EQ(result.exit_code, exit_code) << result.describe();
  return json::parse(result.out, nullptr, false);
}

/// The same bytes for the same tensor, whoever writes it.
std::string content_of(const StoredTensor& tensor) {
  std::string bytes(tensor.bytes(), '\0');
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const float value = static_cast<float>(i % 1000) / 100 - 4;
    std::memcpy(&bytes[i], &value, sizeof value);
  }
  return bytes;
}

void write_all(checkpoint::TensorSink& sink) {
  for (const StoredTensor& tensor : sink.order()) {
    const std::string bytes = content_of(tensor);
    sink.write(std::as_bytes(std::span(bytes)));
  }
  sink.commit();
}

const std::vector<StoredTensor> kModel{
    {"embed.weight", "F32", {50, 8}, "parameter", {"head.weight"}},
    {"fc.weight", "F32", {8, 8}, "parameter"},
    {"fc.bias", "F32", {8}, "parameter"},
};

std::string write_safetensors(const TemporaryFolder& folder, const std::string& name,
                              const std::vector<StoredTensor>& tensors,
                              std::uint64_t max_shard_bytes = 0) {
  checkpoint::SafetensorsSink sink(folder / name, tensors, {.max_shard_bytes = max_shard_bytes});
  write_all(sink);
  return folder / name;
}

std::string write_torch(const TemporaryFolder& folder, const std::string& name,
                        const std::vector<StoredTensor>& tensors) {
  checkpoint::TorchFileSink sink(folder / name, tensors);
  write_all(sink);
  return folder / name;
}

std::string write_step(const TemporaryFolder& folder, const std::string& dir, std::int64_t step,
                       int ranks = 1) {
  checkpoint::StepSinkOptions options{.ranks = ranks};
  options.described.step = step;
  options.described.epoch = 1;
  options.described.seed = 3;
  options.described.config_hash = "abc";
  checkpoint::StepSink sink(folder / dir, kModel, options);
  write_all(sink);
  return sink.path().string();
}

std::vector<std::string> names_in(const json& document) {
  std::vector<std::string> names;
  for (const json& tensor : document.at("tensors")) names.push_back(tensor.at("name"));
  std::sort(names.begin(), names.end());
  return names;
}

// C3: half a download.
TEST(CkptVerify, SaysWhereAFileOfTorchWasCut) {
  const TemporaryFolder folder;
  const std::string file = write_torch(folder, "model.pt", kModel);
  EXPECT_EQ(answered({"verify", file}).at("ok"), true);
  const std::uint64_t whole = fs::file_size(file);
  for (const std::uint64_t size : {whole - 1, whole / 2}) {
    fs::resize_file(file, size);
    const ProgramResult result = ckpt({"verify", file});
    EXPECT_EQ(result.exit_code, 4) << result.describe();
    EXPECT_THAT(result.err, HasSubstr("truncated: no end-of-directory record"));
    EXPECT_THAT(result.err, HasSubstr("last complete entry"));
    const json problems = answered({"verify", file}, 4).at("problems");
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].at("where"), file);
  }
}

// C4: one of several shards is short.
TEST(CkptVerify, NamesTheShardThatIsShortAndWhatIsLost) {
  const TemporaryFolder folder;
  write_safetensors(folder, "model.safetensors",
                    {{"a", "F32", {500}}, {"b", "F32", {500}}, {"c", "F32", {500}}}, 2000);
  const std::string second = folder / "model-00002-of-00003.safetensors";
  const std::uint64_t whole = fs::file_size(second);
  fs::resize_file(second, whole - 1000);
  const ProgramResult result = ckpt({"verify", folder.path().string()});
  EXPECT_EQ(result.exit_code, 4) << result.describe();
  for (const std::string& part :
       {std::string("model-00002-of-00003.safetensors"),
        format_count(static_cast<std::int64_t>(whole)),
        format_count(static_cast<std::int64_t>(whole) - 1000), std::string("\"b\"")}) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
  EXPECT_THAT(result.err, Not(HasSubstr("\"c\"")));
}

// C5: more tensors than the header's usual limit.
TEST(CkptInspect, ReadsALongHeaderOnlyWhenAskedTo) {
  const TemporaryFolder folder;
  const std::uint64_t length = 132'095'296;
  const std::string tensor = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string file = folder / "long.safetensors";
  {
    std::ofstream out(file, std::ios::binary);
    std::string header = tensor;
    header += R"(,"__metadata__":{"long":")";
    const std::string end = "\"}}";
    header += std::string(length - header.size() - end.size(), 'x') + end;
    out << made::le(length, 8) << header << std::string(4, '\0');
  }
  const ProgramResult refused = ckpt({"inspect", file});
  EXPECT_EQ(refused.exit_code, 4) << refused.describe();
  EXPECT_THAT(refused.err, HasSubstr("132,095,296"));
  EXPECT_THAT(refused.err, HasSubstr("100,000,000"));
  EXPECT_THAT(refused.err, HasSubstr("--max-header"));
  EXPECT_EQ(ckpt({"inspect", file, "--max-header", "200MB", "--quiet", "--filter", "w"}).exit_code,
            0);
}

// C7: tied weights are stored once, and their tie survives every format.
TEST(CkptConvert, KeepsBitsAndTiesThroughEveryFormat) {
  const TemporaryFolder folder;
  const std::string first = write_torch(folder, "first.pt", kModel);
  const std::string shards = folder / "shards";
  const std::string steps = folder / "steps";
  const std::string last = folder / "last.pt";
  EXPECT_EQ(answered({"convert", first, shards, "--max-shard", "500"}).at("format"), "safetensors");
  EXPECT_EQ(answered({"convert", shards, steps, "--to", "lockstep"}).at("format"), "lockstep");
  EXPECT_EQ(answered({"convert", steps, last}).at("tensors"), 3);
  for (const std::string& other : {shards, steps, last}) {
    EXPECT_EQ(answered({"diff", first, other}).at("same"), true) << other;
    const json tensors = answered({"inspect", other, "--filter", "embed*"}).at("tensors");
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].at("aliases"), json::array({"head.weight"})) << other;
  }
}

// C8: objects of numpy beside the weights.
TEST(CkptConvert, LeavesOutWhatIsNoTensorWithAWarning) {
  const TemporaryFolder folder;
  const std::string state =
      made::reduce(made::global("numpy._core.multiarray", "_reconstruct"),
                   {made::global("numpy", "ndarray"), made::numbers({0}), made::text("b")});
  const std::string file = folder / "train.pt";
  std::ofstream(file, std::ios::binary) << made::torch_file_of(
      made::pickle(
          made::dict({{"w", made::tensor(made::storage("FloatStorage", "0", 2), 0, {2}, {1})},
                      {"rng_state", state}})),
      {std::string(8, 'x')});
  const ProgramResult result = ckpt({"convert", file, folder / "out.safetensors"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("warning: rng_state is left out"));
  const json document = answered({"inspect", file});
  EXPECT_EQ(names_in(document), (std::vector<std::string>{"w"}));
  EXPECT_EQ(document.at("skipped").at(0).at("name"), "rng_state");
}

TEST(CkptConvert, RefusesAPickleThatNamesAFunctionAndMakesNothing) {
  const TemporaryFolder folder;
  const std::string mark = folder / "mark";
  const std::string file = folder / "hostile.pt";
  std::ofstream(file, std::ios::binary) << made::torch_file_of(
      made::pickle(made::reduce(made::global("posix", "system"), {made::text("touch " + mark)})),
      {});
  const ProgramResult result = ckpt({"convert", file, folder / "out.safetensors"});
  EXPECT_EQ(result.exit_code, 4) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("posix.system"));
  EXPECT_FALSE(fs::exists(mark));
  EXPECT_FALSE(fs::exists(folder / "out.safetensors"));
}

// C10: a wrong path.
TEST(CkptInspect, SaysWhatItLookedForInAFolderWithoutCheckpoints) {
  const TemporaryFolder folder;
  for (const char* command : {"inspect", "list", "verify"}) {
    const ProgramResult result = ckpt({command, folder.path().string()});
    EXPECT_EQ(result.exit_code, 4) << result.describe();
    EXPECT_THAT(result.err,
                HasSubstr("no checkpoint files in " + folder.path().string() + " (looked for "));
  }
}

// C12: what wrappers put before names.
TEST(CkptConvert, TakesOffPrefixesAndSaysSo) {
  const TemporaryFolder folder;
  const std::string file = write_torch(
      folder, "wrapped.pt",
      {{"_orig_mod.module.fc.weight", "F32", {2, 2}}, {"_orig_mod.module.fc.bias", "F32", {2}}});
  const auto names_after = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words{"convert", file, folder / "out.safetensors", "--force"};
    words.insert(words.end(), flags.begin(), flags.end());
    const json document = answered(words);
    return std::pair(names_in(answered({"inspect", folder / "out.safetensors"})),
                     document.at("notes").dump());
  };
  const std::vector<std::string> plain{"fc.bias", "fc.weight"};
  const auto [names, notes] = names_after({});
  EXPECT_EQ(names, plain);
  EXPECT_THAT(notes, HasSubstr("module."));
  EXPECT_EQ(names_after({"--strip", "module.,_orig_mod"}).first, plain);
  EXPECT_EQ(names_after({"--strip", "none"}).first[0], "_orig_mod.module.fc.bias");
}

TEST(CkptConvert, NamesOfAFamilyThatMatchNothingAreAnError) {
  const TemporaryFolder folder;
  const std::string file = write_safetensors(folder, "a.safetensors", {{"nobody", "F32", {2}}});
  const ProgramResult result =
      ckpt({"convert", file, folder / "out.safetensors", "--names", "gpt2"});
  EXPECT_EQ(result.exit_code, 4) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("LS-5015"));
}

TEST(CkptConvert, ReplacesOnlyWhenForced) {
  const TemporaryFolder folder;
  const std::string file = write_torch(folder, "a.pt", kModel);
  const std::string out = write_safetensors(folder, "a.safetensors", {{"w", "F32", {2}}});
  const json refused = answered({"convert", file, out}, 2);
  EXPECT_EQ(refused.at("errors").at(0).at("code"), "LS-1021");
  EXPECT_EQ(names_in(answered({"inspect", out})), (std::vector<std::string>{"w"}));
  (void)answered({"convert", file, out, "--force"});
  EXPECT_EQ(answered({"inspect", out}).at("tensors").size(), 3U);
}

TEST(CkptConvert, FindsAllThatIsWrongWithFlags) {
  const json document =
      answered({"convert", "in", "--max-shard", "some", "--max-header", "0", "--names", "gpt9"}, 2);
  std::vector<std::string> codes;
  for (const json& error : document.at("errors")) {
    codes.push_back(error.at("where").get<std::string>() + " " +
                    error.at("code").get<std::string>());
  }
  EXPECT_THAT(codes,
              testing::UnorderedElementsAre("lockstep ckpt convert LS-1014", "--max-shard LS-1013",
                                            "--max-header LS-1013", "--names LS-1013"));
}

TEST(CkptReshard, CutsForAnyNumberOfRanksAndBack) {
  const TemporaryFolder folder;
  const std::string step = write_step(folder, "steps", 40);
  (void)answered({"reshard", step, folder / "cut", "--ranks", "3"});
  EXPECT_EQ(answered({"diff", step, folder / "cut"}).at("same"), true);
  const json cut = answered({"inspect", folder / "cut"});
  EXPECT_EQ(cut.at("facts").at("world_size"), "3");
  EXPECT_EQ(cut.at("facts").at("config_hash"), "abc");
  EXPECT_EQ(cut.at("facts").at("epoch"), "1");
  EXPECT_EQ(answered({"verify", folder / "cut"}).at("ok"), true);
  (void)answered({"reshard", folder / "cut", folder / "back", "--ranks", "1"});
  EXPECT_EQ(checkpoint::read_manifest(folder / "back/step-40").file_bytes,
            checkpoint::read_manifest(step).file_bytes);
  const std::string other = write_torch(folder, "a.pt", kModel);
  EXPECT_EQ(answered({"reshard", other, folder / "x", "--ranks", "2"}, 2).at("errors").size(), 1U);
}

TEST(CkptList, ShowsWhatIsCompleteAndWhyTheRestIsNot) {
  const TemporaryFolder folder;
  write_step(folder, "run/checkpoints", 5);
  const std::string cut = write_step(folder, "run/checkpoints", 7);
  fs::resize_file(cut + "/model.safetensors", 100);
  fs::create_directories(folder / "run/checkpoints/step-9");
  fs::create_directories(folder / "run/checkpoints/.step-10.tmp");
  const json rows = answered({"list", folder / "run"}).at("checkpoints");
  ASSERT_EQ(rows.size(), 4U);
  std::string all;
  for (const json& row : rows) {
    all += row.at("step").dump() + (row.at("complete") == true ? " complete" : " not") +
           (row.at("newest") == true ? " newest" : "") + ", ";
    EXPECT_GE(row.at("age_s"), 0);
    EXPECT_EQ(row.contains("why"), row.at("complete") == false);
  }
  EXPECT_EQ(all, "10 not, 9 not, 7 not, 5 complete newest, ");
  const ProgramResult table = ckpt({"list", folder / "run"});
  EXPECT_THAT(table.out, HasSubstr("incomplete: model.safetensors has 100 B instead of"));
  EXPECT_THAT(table.out, HasSubstr("its saving never ended"));
  EXPECT_EQ(answered({"list"}, 2).at("errors").at(0).at("code"), "LS-1021");
}

TEST(CkptVerify, NamesFileTensorAndOffsetOfAFlippedBit) {
  const TemporaryFolder folder;
  write_step(folder, "run/checkpoints", 5);
  const std::string step = write_step(folder, "run/checkpoints", 7);
  EXPECT_EQ(answered({"verify", folder / "run"}).at("ok"), true);
  {
    std::fstream file(step + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  const json problems = answered({"verify", folder / "run"}, 4).at("problems");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].at("code"), "LS-5005");
  EXPECT_EQ(problems[0].at("where"), step + "/model.safetensors");
  EXPECT_THAT(problems[0].at("what").get<std::string>(), HasSubstr("\"fc.weight\""));
}

TEST(CkptInspect, ShowsHeadersAndWithStatsValues) {
  const TemporaryFolder folder;
  const std::string step = write_step(folder, "steps", 40);
  const json document = answered({"inspect", step});
  EXPECT_EQ(document.at("format"), "lockstep");
  EXPECT_EQ(document.at("parameters"), 50 * 8 + 8 * 8 + 8);
  EXPECT_EQ(document.at("total_bytes"), 4 * (50 * 8 + 8 * 8 + 8));
  EXPECT_EQ(document.at("facts").at("step"), "40");
  EXPECT_FALSE(document.at("tensors").at(0).contains("stats"));
  const json stats = answered({"inspect", step, "--stats", "--filter", "bias"}).at("tensors");
  ASSERT_EQ(stats.size(), 1U);
  EXPECT_EQ(stats[0].at("stats").at("elements"), 8);
  EXPECT_NEAR(stats[0].at("stats").at("min").get<double>(), -4, 1e-6);
  EXPECT_NEAR(stats[0].at("stats").at("max").get<double>(), -3.72, 1e-6);
  const ProgramResult table = ckpt({"inspect", step, "--stats"});
  EXPECT_THAT(table.out, HasSubstr("embed.weight = head.weight"));
  EXPECT_THAT(table.out, HasSubstr("472 parameters"));
}

TEST(CkptInspect, ReadsNoDataOfAHundredGigabytes) {
  const TemporaryFolder folder;
  const std::uint64_t bytes = 100'000'000'000;
  const std::string header = R"({"w":{"dtype":"U8","shape":[100000000000],"data_offsets":[0,)" +
                             std::to_string(bytes) + "]}}";
  const std::string file = folder / "sparse.safetensors";
  std::ofstream(file, std::ios::binary) << made::le(header.size(), 8) << header;
  fs::resize_file(file, 8 + header.size() + bytes);
  const ProgramResult result = ckpt({"inspect", folder.path().string(), "--json"});
  EXPECT_EQ(json::parse(result.out).at("total_bytes"), bytes);
  EXPECT_LT(result.seconds, 2) << "the bar of 0.2 s is that of a quiet machine";
}

TEST(CkptDiff, SaysWhatDiffersAndByHowMuch) {
  const TemporaryFolder folder;
  const std::string a = write_safetensors(
      folder, "a.safetensors", {{"same", "F32", {3}}, {"w", "F32", {3}}, {"x", "F32", {1}}});
  const std::string b = write_safetensors(
      folder, "b.safetensors", {{"same", "F32", {3}}, {"w", "F32", {3}}, {"y", "F32", {1}}});
  {  // the last element of w, which lies before y
    std::fstream file(b, std::ios::in | std::ios::out | std::ios::binary);
    const float value = 2;
    file.seekp(-8, std::ios::end);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const json document = answered({"diff", a, b}, 1);
  EXPECT_EQ(document.at("same"), false);
  EXPECT_EQ(document.at("only_in_a"), json::array({"x"}));
  EXPECT_EQ(document.at("only_in_b"), json::array({"y"}));
  ASSERT_EQ(document.at("tensors").size(), 1U);
  EXPECT_EQ(document.at("tensors").at(0).at("differing"), 1);
  EXPECT_NEAR(document.at("tensors").at(0).at("max_abs").get<double>(), 5.92, 1e-5);
  EXPECT_EQ(answered({"diff", a, b, "--tolerance", "6"}, 1).at("tensors").size(), 0U);
  EXPECT_EQ(ckpt({"diff", a, a}).exit_code, 0);
}

// C12, where nothing at all is common.
TEST(CkptDiff, SaysWhatWouldMakeNamesCommon) {
  const TemporaryFolder folder;
  const std::string a = write_safetensors(folder, "a.safetensors", {{"model.fc.w", "F32", {3}}});
  const std::string b = write_safetensors(folder, "b.safetensors", {{"fc.w", "F32", {3}}});
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    EXPECT_THAT(answered({"diff", one, other}, 1).at("hint").get<std::string>(),
                HasSubstr("strip `model.` from the names of " + a));
    EXPECT_THAT(ckpt({"diff", one, other}).out, HasSubstr("no tensor is in both"));
  }
}

TEST(CkptTag, NamesACheckpointAndNoticesThatItChanged) {
  const TemporaryFolder folder;
  const std::string step = write_step(folder, "run/checkpoints", 40);
  const std::vector<std::string> registry{"--registry", folder / "tags"};
  const auto tag = [&](std::vector<std::string> words, int exit_code = 0) {
    words.insert(words.begin(), "tag");
    words.insert(words.end(), registry.begin(), registry.end());
    return answered(words, exit_code);
  };
  EXPECT_EQ(tag({"list"}).at("tags"), json::array());
  EXPECT_EQ(tag({"add", "best", folder / "run", "--metric", "loss 2"}).at("path"), step);
  EXPECT_EQ(tag({"list"}).at("tags").at(0).at("step"), 40);
  EXPECT_EQ(answered({"list", "--tags", "--registry", folder / "tags"}).at("tags").size(), 1U);
  EXPECT_EQ(tag({"add", "best", step}, 2).at("errors").at(0).at("code"), "LS-5016");
  EXPECT_EQ(tag({"verify", "best"}).at("ok"), true);
  fs::resize_file(step + "/model.safetensors", 10);
  EXPECT_EQ(tag({"verify", "best"}, 4).at("problems").at(0).at("code"), "LS-5017");
  EXPECT_EQ(tag({"verify", "bets"}, 2).at("errors").at(0).at("code"), "LS-5016");
  EXPECT_EQ(tag({"remove", "best"}).at("removed"), "best");
  EXPECT_EQ(tag({"list"}).at("tags"), json::array());
  EXPECT_EQ(tag({"lsit"}, 2).at("errors").at(0).at("code"), "LS-1021");
  EXPECT_EQ(tag({"list", "--metric", "x"}, 2).at("errors").at(0).at("where"), "--metric");
}

TEST(CkptTag, KeepsTagsWhereTheEnvironmentSays) {
  const TemporaryFolder folder;
  const std::string step = write_step(folder, "steps", 1);
  const ProgramOptions own{.extra_env = {"LOCKSTEP_TAGS=" + (folder / "own")}};
  const ProgramOptions all{.extra_env = {"LOCKSTEP_TAGS=", "XDG_DATA_HOME=" + (folder / "data")}};
  EXPECT_EQ(ckpt({"tag", "add", "a", step}, own).exit_code, 0);
  EXPECT_EQ(ckpt({"tag", "add", "a", step}, all).exit_code, 0);
  EXPECT_FALSE(fs::is_empty(folder / "own"));
  EXPECT_FALSE(fs::is_empty(folder / "data/lockstep/tags"));
}

}  // namespace
}  // namespace lockstep::test
