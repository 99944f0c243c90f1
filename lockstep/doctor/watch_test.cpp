#include "lockstep/doctor/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::doctor {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kSecond = 1'000'000'000;

/// Rank 0 waits for rank 1, which is stopped in its data.
comm::FlightFolder stuck_job() {
  comm::FlightFolder folder;
  for (int r = 0; r < 2; ++r) {
    comm::RankView view;
    view.flight.rank = r;
    view.flight.world_size = 2;
    view.flight.process.pid = 4710 + r;
    view.flight.process.host = "node1";
    view.flight.groups = {{"world", r, 2, 7 + (r == 0 ? 1 : 0)}};
    view.flight.phase = r == 0 ? comm::Phase::sync : comm::Phase::data;
    view.flight.phase_since_ns = 85 * kSecond;
    view.process = {comm::ProcessState::running, 'S'};
    view.now_ns = 100 * kSecond;
    if (r == 1) view.process = {comm::ProcessState::stopped, 'T'};
    folder.views.push_back(view);
  }
  comm::CollectiveRecord record;
  record.index = 8;
  record.sequence = 8;
  record.op = "all_reduce";
  record.site = "bucket 0: fc.weight .. fc.bias";
  record.state = comm::CollectiveState::started;
  record.entered_ns = record.started_ns = 90 * kSecond;
  folder.views[0].flight.records = {record};
  return folder;
}

TEST(Watch, TheTableHasALinePerRankUnderTheVerdict) {
  const auto lines = to_lines(report_on(stuck_job()), 200);
  EXPECT_THAT(
      lines, ElementsAre("rank 1 has not entered all_reduce #8 of group world (bucket 0: fc.weight "
                         ".. fc.bias); it is stopped (process 4711, state T), in data wait for "
                         "15.0 s; rank 0 has waited for 10.0 s",
                         "", "rank  pid      state       phase      since     last collective",
                         "0     4710     running     sync       15.0 s    started 10.0 s ago: "
                         "all_reduce #8 of group world (bucket 0: fc.weight .. fc.bias)",
                         "1     4711     stopped T   data       15.0 s    none yet"));
}

TEST(Watch, NoLineIsLongerThanTheTerminalIsWide) {
  comm::FlightFolder folder = stuck_job();
  folder.notes = {std::string(100, 'x')};
  for (const std::string& line : to_lines(report_on(folder), 40)) {
    EXPECT_LE(line.size(), 40U) << line;
  }
}

TEST(Watch, JsonNamesTheVerdictTheCollectiveAndEveryRank) {
  const auto document = nlohmann::json::parse(to_json_text(report_on(stuck_job())));
  const auto& verdict = document.at("verdict");
  EXPECT_EQ(verdict.at("kind"), "stopped");
  EXPECT_EQ(verdict.at("is_wrong"), true);
  EXPECT_EQ(verdict.at("ranks"), nlohmann::json::array({1}));
  EXPECT_EQ(verdict.at("collective").at("sequence"), 8);
  EXPECT_EQ(verdict.at("collective").at("group"), "world");
  ASSERT_THAT(document.at("ranks"), SizeIs(2));
  EXPECT_EQ(document.at("ranks")[1].at("process_state"), "T");
  EXPECT_EQ(document.at("ranks")[0].at("phase"), "sync");
  EXPECT_DOUBLE_EQ(document.at("ranks")[0].at("last").at("age_s"), 10.0);
  EXPECT_FALSE(document.at("ranks")[1].contains("last"));
  EXPECT_EQ(document.at("is_over"), false);
}

TEST(Watch, AJobIsOverWhenEveryRankFinishedOrIsGone) {
  comm::FlightFolder folder = stuck_job();
  folder.views[0].flight.finished = true;
  EXPECT_FALSE(report_on(folder).is_over);
  folder.views[1].process = {comm::ProcessState::gone, '-'};
  const WatchReport report = report_on(folder);
  EXPECT_TRUE(report.is_over);
  EXPECT_EQ(report.rows[0].state, "finished");
  EXPECT_EQ(report.rows[1].state, "gone");
}

TEST(Watch, WithoutFlightFilesItNamesWhatItLookedFor) {
  const test::ScratchFolder folder;
  try {
    (void)watch_once(folder.path());
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.problems().front().code, "LS-4022");
    EXPECT_THAT(error.problems().front().what,
                HasSubstr((folder.path() / "flight/rank-<rank>.ring").string()));
  }
}

TEST(Watch, ReadsTheFilesOfARunDirectory) {
  const test::ScratchFolder folder;
  comm::FlightRecorder recorder(0, 1);
  recorder.persist(comm::flight_file(folder.path(), 0), 1);
  recorder.set_phase(comm::Phase::forward);
  const WatchReport report = watch_once(folder.path());
  EXPECT_EQ(report.verdict.text, "the only rank moves");
  ASSERT_EQ(report.rows.size(), 1U);
  EXPECT_EQ(report.rows[0].phase, "forward");
  EXPECT_EQ(report.rows[0].state, "running");
}

}  // namespace
}  // namespace lockstep::doctor
