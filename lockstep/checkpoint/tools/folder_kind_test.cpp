#include "lockstep/checkpoint/tools/folder_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "lockstep/checkpoint/format/tensor_file.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::HasSubstr;
using Kind = CheckpointKind;

class FolderKinds : public testing::Test {
 protected:
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }

  fs::path put(const std::string& name, const std::string& bytes) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  [[nodiscard]] FolderKind kind_of(const std::string& name) const {
    return folder_kind(path(name));
  }

  /// Why the file is none, with its fix.
  [[nodiscard]] std::string why_not(const std::string& name) const {
    const FolderKind found = kind_of(name);
    EXPECT_EQ(found.kind, Kind::nothing) << name;
    EXPECT_FALSE(found.fix.empty()) << name;
    return found.why;
  }

  ScratchFolder scratch_;
};

constexpr const char* kZip = "PK\x03\x04 and more";

TEST_F(FolderKinds, OneOfOurStepsIsKnownByItsManifest) {
  put("step-5/manifest.json", "");
  put("step-5/model.safetensors", "");
  EXPECT_EQ(kind_of("step-5").kind, Kind::step);
  EXPECT_EQ(kind_of("step-5").path, path("step-5"));
  EXPECT_EQ(kind_of("step-5/manifest.json").kind, Kind::step);
  EXPECT_EQ(kind_of("step-5/manifest.json").path, path("step-5"));
}

TEST_F(FolderKinds, ARunIsTheFolderOfItsSteps) {
  put("run/checkpoints/step-5/manifest.json", "");
  put("run/checkpoints/step-6/model.safetensors", "");
  for (const char* name : {"run", "run/checkpoints"}) {
    EXPECT_EQ(kind_of(name).kind, Kind::run) << name;
    EXPECT_EQ(kind_of(name).path, path("run/checkpoints")) << name;
  }
}

TEST_F(FolderKinds, SafetensorsAreAFileAnIndexOrTheirFolder) {
  fs::create_directories(path("hf"));
  TensorFile file(path("hf/model-00001-of-00002.safetensors"), {{"w", "U8", {0}}}, {});
  (void)file.write({});
  (void)file.commit();
  put("hf/config.json", "{}");
  put("hf/optimizer.pt", kZip);
  for (const char* name : {"hf", "hf/model-00001-of-00002.safetensors"}) {
    EXPECT_EQ(kind_of(name).kind, Kind::safetensors) << name;
    EXPECT_EQ(kind_of(name).path, path(name)) << name;
  }
  fs::rename(path("hf/model-00001-of-00002.safetensors"), path("hf/weights.bin"));
  EXPECT_EQ(kind_of("hf/weights.bin").kind, Kind::safetensors);  // by its bytes
  put("hf/model.safetensors.index.json", "{\"weight_map\":{}}");
  EXPECT_EQ(kind_of("hf").kind, Kind::safetensors);
  EXPECT_EQ(kind_of("hf/model.safetensors.index.json").kind, Kind::safetensors);
}

TEST_F(FolderKinds, AFileOfTorchIsKnownByItsBytes) {
  put("a.pt", kZip);
  put("b.ckpt", std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
  for (const char* name : {"a.pt", "b.ckpt"}) {
    EXPECT_EQ(kind_of(name).kind, Kind::torch) << name;
    EXPECT_EQ(kind_of(name).path, path(name));
  }
}

TEST_F(FolderKinds, AFolderWithOneFileOfTorchIsThatFile) {
  put("t/model.pth", kZip);
  EXPECT_EQ(kind_of("t").kind, Kind::torch);
  EXPECT_EQ(kind_of("t").path, path("t/model.pth"));
  put("t/model.pt", kZip);
  EXPECT_EQ(why_not("t"), "2 files of torch.save(): model.pt, model.pth");
  for (const char* name : {"t/a.pt", "t/b.pt", "t/c.pt"}) put(name, kZip);
  EXPECT_THAT(why_not("t"), HasSubstr("5 files of torch.save(): a.pt, b.pt, c.pt, model.pt, ..."));
}

TEST_F(FolderKinds, DistributedCheckpointsAreKnownByTheirMetadata) {
  put("dcp/.metadata", "x");
  put("dcp/__0_0.distcp", kZip);
  EXPECT_EQ(kind_of("dcp").kind, Kind::dcp);
  EXPECT_EQ(kind_of("dcp/.metadata").path, path("dcp"));
  EXPECT_THAT(why_not("dcp/__0_0.distcp"), HasSubstr("one file of a folder"));
}

TEST_F(FolderKinds, DeepSpeedIsAFolderWithLatestOrTheOneItNames) {
  put("ds/latest", "global_step7\n");
  put("ds/zero_to_fp32.py", "");
  put("ds/global_step7/mp_rank_00_model_states.pt", kZip);
  put("ds/global_step7/zero_pp_rank_0_mp_rank_00_optim_states.pt", kZip);
  EXPECT_EQ(kind_of("ds").kind, Kind::deepspeed);
  EXPECT_EQ(kind_of("ds").path, path("ds"));
  EXPECT_EQ(kind_of("ds/global_step7").kind, Kind::deepspeed);
  put("z3/zero_pp_rank_0_mp_rank_00_model_states.pt", kZip);
  EXPECT_EQ(kind_of("z3").kind, Kind::deepspeed);
}

TEST_F(FolderKinds, LatestThatNamesNothingIsSaid) {
  put("ds/latest", "global_step7");
  EXPECT_THAT(why_not("ds"), HasSubstr("names global_step7, where there is no mp_rank_"));
  fs::create_directory(path("ds/global_step7"));
  EXPECT_THAT(why_not("ds"), HasSubstr("names global_step7, where there is no mp_rank_"));
  for (const std::string text : {"", "../x", "/etc", ".", "\n", "\xff"}) {
    put("ds/latest", text);
    EXPECT_THAT(why_not("ds"), HasSubstr("names no")) << text;
  }
  put("ds/latest", std::string("a\0b", 3));
  EXPECT_EQ(why_not("ds"), "its file `latest` names no folder");
  put("ds/latest", std::string(10'000, 'a'));
  EXPECT_EQ(why_not("ds"), "its file `latest` names no folder");
  put("ds/model.pt", kZip);  // then that is what the folder holds
  EXPECT_EQ(kind_of("ds").kind, Kind::torch);
}

TEST_F(FolderKinds, AFolderWithoutAnyNamesWhatWasLookedFor) {
  put("none/readme.txt", "x");
  put("none/step-6/model.bin", "x");
  EXPECT_EQ(
      why_not("none"),
      "no checkpoint files in " + path("none").string() +
          " (looked for step-*/manifest.json, *.safetensors, *.pt, *.pth, .metadata, latest)");
  const Problem problem = problem_of(kind_of("none"));
  EXPECT_EQ(problem.code, "LS-5003");
  EXPECT_EQ(problem.where, path("none"));
  EXPECT_EQ(problem.what, why_not("none"));
}

TEST_F(FolderKinds, WhatIsNoCheckpointIsCalledByItsName) {
  put("page.safetensors", "\n <!DOCTYPE HTML><html>404</html>");
  EXPECT_THAT(why_not("page.safetensors"), HasSubstr("an HTML page"));
  put("page.pt", "\xef\xbb\xbf<html lang=\"en\">");
  EXPECT_THAT(why_not("page.pt"), HasSubstr("an HTML page"));
  put("error.pt", "<?xml version=\"1.0\"?><Error/>");
  EXPECT_THAT(why_not("error.pt"), HasSubstr("an XML text"));
  put("lfs.safetensors",
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 497774208\n");
  EXPECT_EQ(why_not("lfs.safetensors"),
            "a git-lfs pointer to 497774208 bytes, not the file itself");
  put("lfs.pt", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(why_not("lfs.pt"), "a git-lfs pointer, not the file itself");
  put("zeros.safetensors", std::string(100'000, '\0'));
  EXPECT_THAT(why_not("zeros.safetensors"), HasSubstr("zeros (its first 65,536 bytes)"));
  put("empty.pt", "");
  EXPECT_EQ(why_not("empty.pt"), "an empty file");
  put("config.json", "{\"error\": \"no access\"}");
  EXPECT_EQ(why_not("config.json"), "a JSON text, not a checkpoint");
  put("x.gguf", "GGUF\x03");
  EXPECT_THAT(why_not("x.gguf"), HasSubstr("it begins with 47 47 55 46 03"));
  EXPECT_THAT(why_not("x.gguf"), HasSubstr("a GGUF file"));
  put("bare.pkl", std::string("\x80\x04}.", 4));
  EXPECT_THAT(why_not("bare.pkl"), HasSubstr("not a checkpoint but a bare pickle"));
  put("short", "\x08");
  EXPECT_THAT(why_not("short"), HasSubstr("it begins with 08"));
  EXPECT_EQ(why_not("missing"), "no such file or folder");
}

TEST_F(FolderKinds, AHeaderThatIsCutIsStillOne) {
  put("cut.safetensors", std::string("\x40\x1f\0\0\0\0\0\0 {\"w\"", 14));
  EXPECT_EQ(kind_of("cut.safetensors").kind, Kind::safetensors);
  put("other", std::string("\x40\x1f\0\0\0\0\0\x01{\"w\"", 13));
  EXPECT_EQ(kind_of("other").kind, Kind::nothing);
}

TEST_F(FolderKinds, PipesAndDevicesAreNotOpened) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(why_not("pipe"), "neither a file nor a folder");
}

TEST_F(FolderKinds, LinksAreFollowed) {
  put("step-5/manifest.json", "");
  fs::create_directory_symlink(path("step-5"), path("best"));
  EXPECT_EQ(kind_of("best").kind, Kind::step);
  fs::create_symlink(path("loop"), path("loop"));
  EXPECT_EQ(kind_of("loop").kind, Kind::nothing);
}

TEST(FormatOf, IsTheNameOfTheReader) {
  EXPECT_EQ(format_of(Kind::step), "lockstep");
  EXPECT_EQ(format_of(Kind::run), "lockstep");
  EXPECT_EQ(format_of(Kind::safetensors), "safetensors");
  EXPECT_EQ(format_of(Kind::torch), "torch");
  EXPECT_EQ(format_of(Kind::dcp), "dcp");
  EXPECT_EQ(format_of(Kind::deepspeed), "deepspeed");
  EXPECT_EQ(format_of(Kind::nothing), "");
}

}  // namespace
}  // namespace lockstep::checkpoint
