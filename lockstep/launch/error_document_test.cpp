#include "lockstep/launch/error_document.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "lockstep/launch/failure_text.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using nlohmann::json;

TEST(ErrorDocument, IsTheRanksOwnWithItsExitCode) {
  const test::ScratchFolder folder;
  RankEnd end;
  end.error_file = folder.write(
      "error.json", R"({"message": {"message": "ValueError: x", "extraInfo": {"a": "b"}}})");
  end.signal = SIGSEGV;
  const json document = json::parse(error_document(end));
  EXPECT_EQ(document["message"]["message"], "ValueError: x");
  EXPECT_EQ(document["message"]["extraInfo"]["a"], "b");
  EXPECT_EQ(document["message"]["errorCode"], -SIGSEGV);
  end.error_file = folder.write("short.json", R"({"message": "x"})");
  EXPECT_EQ(json::parse(error_document(end))["message"], "x");
}

TEST(ErrorDocument, OfARankThatLeftNoneIsMadeOfWhatItPrinted) {
  RankEnd end;
  end.rank = 3;
  end.exit_code = 7;
  end.last_stderr = "no data \xff";
  end.ended_at_s = 1;
  const std::string text = error_document(end);
  const auto file = parse_error_file(text);
  ASSERT_TRUE(file.has_value()) << text;
  EXPECT_TRUE(file->message.starts_with("rank 3 ended with exit code 7\nno data")) << text;
  EXPECT_EQ(json::parse(text)["message"]["errorCode"], 7);
}

TEST(ErrorDocument, IsWrittenOverWhatIsThere) {
  const test::ScratchFolder folder;
  const std::string path = folder.write("log", std::string(1000, 'x'));
  EXPECT_EQ(overwrite_file(path, "{}"), 0);
  EXPECT_EQ(std::filesystem::file_size(path), 2U);
  EXPECT_EQ(overwrite_file("/dev/full", "{}"), ENOSPC);
  EXPECT_EQ(overwrite_file(folder.file("no/such"), "{}"), ENOENT);
}

}  // namespace
}  // namespace lockstep::launch
