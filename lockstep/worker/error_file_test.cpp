#include "lockstep/worker/error_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/scratch_folder.h"

namespace lockstep::worker {
namespace {

const std::vector<Problem> kProblems{{"LS-2003", "train.bin", "is cut", "copy it again"}};

TEST(ErrorFile, IsOfTheFormThatTorchrunReads) {
  const auto document = nlohmann::json::parse(error_document(kProblems, 17));
  EXPECT_EQ(document["message"]["message"], "LS-2003: train.bin: is cut");
  EXPECT_EQ(document["message"]["extraInfo"]["timestamp"], "17");
  EXPECT_EQ(document["message"]["extraInfo"]["py_callstack"], to_text(kProblems));
}

TEST(ErrorFile, GoesWhereTheLauncherAskedForIt) {
  const test::ScratchFolder folder;
  const std::string path = folder.file("error.json");
  write_error_file("", kProblems);
  write_error_file("/nowhere/error.json", kProblems);
  write_error_file(path, kProblems);
  std::ifstream in(path);
  EXPECT_NE(std::string(std::istreambuf_iterator<char>(in), {}).find("LS-2003"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker
