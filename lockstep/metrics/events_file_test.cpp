#include "lockstep/metrics/events_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "lockstep/base/error.h"
#include "tests/support/sample_reports.h"

namespace lockstep::metrics {
namespace {

namespace fs = std::filesystem;

class EventsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / ("events_file_test." + std::string(test->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path() const { return folder_ / "events.jsonl"; }
  [[nodiscard]] static std::string read(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  fs::path folder_;
};

TEST_F(EventsFileTest, AppendsWholeLines) {
  EventsFile events(path(), 0);
  events.append(R"({"step":1})");
  EXPECT_EQ(read(path()), "{\"step\":1}\n");
  events.append(R"({"step":2})");
  EXPECT_EQ(read(path()), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(EventsFileTest, ResumingCutsWhatCameAfterTheStep) {
  write("{\"step\":1}\n{\"step\":2}\n{\"eval\":{\"step\":2}}\n{\"step\":3}\n{\"step\":4}\n");
  EventsFile events(path(), 2);
  events.append(R"({"step":3,"again":true})");
  EXPECT_EQ(read(path()),
            "{\"step\":1}\n{\"step\":2}\n{\"eval\":{\"step\":2}}\n{\"step\":3,\"again\":true}\n");
}

TEST_F(EventsFileTest, ATornLastLineIsCutEvenBeforeTheStep) {
  write("{\"step\":1}\n{\"step\":2,\"lo");
  const EventsFile events(path(), 5);
  EXPECT_EQ(read(path()), "{\"step\":1}\n");
}

TEST_F(EventsFileTest, LinesThatAreNoReportsStayWhereTheyAre) {
  const std::string kept = "{\"step\":1}\ngarbage\n{\"eval\":7}\n{\"step\":\"x\"}\n{\"step\":2}\n";
  write(kept + "{\"step\":3}\n");
  const EventsFile events(path(), 2);
  EXPECT_EQ(read(path()), kept);
}

TEST_F(EventsFileTest, AFreshRunStartsWithAnEmptyFile) {
  write("{\"step\":1}\n");
  const EventsFile events(path(), 0);
  EXPECT_EQ(read(path()), "");
}

TEST_F(EventsFileTest, AMissingFolderIsTheEnvironmentsFault) {
  EXPECT_THROW(EventsFile(folder_ / "none" / "events.jsonl", 0), EnvironmentFault);
  EXPECT_THROW(write_summary(folder_ / "none", sample::summary()), EnvironmentFault);
}

TEST_F(EventsFileTest, APipeThatNobodyReadsIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  for (const std::int64_t resumed_step : {0, 5}) {
    try {
      const EventsFile events(path(), resumed_step);
      FAIL() << "opened a pipe";
    } catch (const EnvironmentFault& error) {
      EXPECT_EQ(error.problems().at(0).what, "is not a regular file");
    }
  }
}

TEST_F(EventsFileTest, AFullDiskIsReported) {
  EventsFile events("/dev/full", 0);
  try {
    events.append("{}");
    FAIL() << "nothing was written and nobody said so";
  } catch (const EnvironmentFault& error) {
    EXPECT_EQ(error.problems().at(0).where, "/dev/full");
  }
}

TEST_F(EventsFileTest, TheSummaryCanBeReadBack) {
  write_summary(folder_, sample::summary());
  const std::string text = read(folder_ / "summary.json");
  EXPECT_EQ(engine::summary_from_json_text(text).steps, 1876);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace lockstep::metrics
