#include "lockstep/comm/records/flight_recorder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::comm {
namespace {

CollectiveRecord last_of(const RankFlight& flight) { return flight.records.back(); }

TEST(FlightRecorder, NumbersCollectivesOfEachGroupFromOneAndRemembersTheirEnd) {
  FlightRecorder recorder(1, 4);
  const auto world = recorder.add_group("world", 1, 4);
  const auto pairs = recorder.add_group("pairs", 0, 2);
  EXPECT_EQ(recorder.begin(world, "broadcast", "float32", 8, 32, "the job").sequence, 1);
  const Ticket second = recorder.begin(world, "all_reduce", "bfloat16", 16, 32, "");
  EXPECT_EQ(second.sequence, 2);
  const Ticket other = recorder.begin(pairs, "barrier", "", 0, 0, "");
  EXPECT_EQ(other.sequence, 1);
  recorder.started(second);
  recorder.ended(other, true);
  const RankFlight flight = recorder.snapshot();
  EXPECT_EQ(flight.rank, 1);
  EXPECT_EQ(flight.world_size, 4);
  EXPECT_EQ(flight.process.pid, ::getpid());
  ASSERT_EQ(flight.records.size(), 3U);
  EXPECT_EQ(flight.records[0].state, CollectiveState::entered);
  EXPECT_EQ(flight.records[0].site, "the job");
  EXPECT_EQ(flight.records[1].state, CollectiveState::started);
  EXPECT_GE(flight.records[1].started_ns, flight.records[1].entered_ns);
  EXPECT_EQ(flight.records[2].state, CollectiveState::completed);
  EXPECT_EQ(flight.groups.at(flight.records[2].group).name, "pairs");
  EXPECT_EQ(flight.groups[0].entered, 2);
  EXPECT_EQ(flight.groups[1].size, 2);
}

TEST(FlightRecorder, MessagesAreRecordedBesideTheCollectivesOfTheirGroup) {
  FlightRecorder recorder(1, 4);
  const auto world = recorder.add_group("world", 1, 4);
  (void)recorder.begin(world, "barrier", "", 0, 0, "");
  const MessageEnd from{.sends = false, .peer = 3, .tag = -7};
  const Ticket receive = recorder.begin_message(world, from, "float32", 8, 32, "stage 2");
  (void)recorder.begin_message(world, {.sends = true, .peer = 0, .tag = 1}, "int64", 1, 8, "");
  (void)recorder.begin_message(world, {.sends = false}, "int64", 1, 8, "");
  EXPECT_EQ(recorder.begin(world, "barrier", "", 0, 0, "").sequence, 2);
  recorder.started(receive);
  recorder.ended(receive, true);
  const RankFlight flight = recorder.snapshot();
  EXPECT_EQ(flight.groups[0].entered, 2);
  ASSERT_EQ(flight.records.size(), 5U);
  EXPECT_FALSE(flight.records[0].message);
  EXPECT_EQ(describe(flight.records[1]), "recv from rank 3 (tag -7) (float32, 8 elements)");
  EXPECT_EQ(flight.records[1].state, CollectiveState::completed);
  EXPECT_EQ(flight.records[1].site, "stage 2");
  EXPECT_EQ(title(flight.records[2]), "send to rank 0 (tag 1)");
  EXPECT_EQ(flight.records[2].sequence, 0);
  EXPECT_EQ(title(flight.records[3]), "recv from any rank (tag 0)");
}

TEST(FlightRecorder, TheFirstEndOfACollectiveStands) {
  FlightRecorder recorder(0, 1);
  const Ticket ticket = recorder.begin(recorder.add_group("world", 0, 1), "barrier", "", 0, 0, "");
  recorder.ended(ticket, false);
  const std::int64_t finished = last_of(recorder.snapshot()).finished_ns;
  recorder.ended(ticket, true);
  recorder.started(ticket);
  EXPECT_EQ(last_of(recorder.snapshot()).state, CollectiveState::failed);
  EXPECT_EQ(last_of(recorder.snapshot()).finished_ns, finished);
}

TEST(FlightRecorder, KnowsWhenACollectiveEnded) {
  FlightRecorder recorder(0, 1);
  const auto world = recorder.add_group("world", 0, 1);
  const Ticket first = recorder.begin(world, "all_reduce", "float32", 1, 4, "");
  const Ticket second = recorder.begin(world, "all_reduce", "float32", 1, 4, "");
  EXPECT_EQ(recorder.ended_ns(first), 0) << "it is in flight";
  const std::int64_t before = monotonic_ns();
  recorder.ended(first, true);
  recorder.ended(second, false);
  EXPECT_GE(recorder.ended_ns(first), before);
  EXPECT_LE(recorder.ended_ns(first), monotonic_ns());
  EXPECT_EQ(recorder.ended_ns(second), 0) << "it failed";
  for (std::uint32_t i = 0; i < flight::kCapacity; ++i) {
    (void)recorder.begin(world, "barrier", "", 0, 0, "");
  }
  EXPECT_EQ(recorder.ended_ns(first), 0) << "another record has its place";
  EXPECT_EQ(recorder.ended_ns({}), 0);
}

TEST(FlightRecorder, KeepsTheLast4096OverAllGroupsAndForgetsOlderOnes) {
  FlightRecorder recorder(0, 2);
  const auto group = recorder.add_group("world", 0, 2);
  const Ticket first = recorder.begin(group, "all_reduce", "float32", 1, 4, "");
  for (int i = 0; i < 4999; ++i) (void)recorder.begin(group, "all_reduce", "float32", i, 4, "");
  recorder.ended(first, true);
  const RankFlight flight = recorder.snapshot();
  ASSERT_EQ(flight.records.size(), 4096U);
  EXPECT_EQ(flight.records.front().sequence, 905);
  EXPECT_EQ(flight.records.back().sequence, 5000);
  for (const auto& record : flight.records) EXPECT_TRUE(record.in_flight());
}

TEST(FlightRecorder, CutsTextsThatAreTooLong) {
  FlightRecorder recorder(0, 1);
  const auto group = recorder.add_group(std::string(100, 'g'), 0, 1);
  (void)recorder.begin(group, std::string(99, 'o'), std::string(99, 'd'), 1, 4,
                       std::string(999, 's'));
  const RankFlight flight = recorder.snapshot();
  EXPECT_EQ(flight.groups[0].name, std::string(39, 'g'));
  EXPECT_EQ(last_of(flight).op, std::string(23, 'o'));
  EXPECT_EQ(last_of(flight).dtype, std::string(15, 'd'));
  EXPECT_EQ(last_of(flight).site, std::string(79, 's'));
  EXPECT_EQ(last_of(flight).count, 1);
}

TEST(FlightRecorder, AGroupMadeAgainGoesOnCountingAndTooManyAreNotRecorded) {
  FlightRecorder recorder(0, 1);
  const auto world = recorder.add_group("world", 0, 1);
  (void)recorder.begin(world, "barrier", "", 0, 0, "");
  EXPECT_EQ(recorder.add_group("world", 0, 1), world);
  EXPECT_EQ(recorder.begin(world, "barrier", "", 0, 0, "").sequence, 2);
  for (int i = 1; i < 60; ++i) {
    (void)recorder.begin(recorder.add_group("g" + std::to_string(i), 0, 1), "barrier", "", 0, 0,
                         "");
  }
  EXPECT_EQ(recorder.snapshot().groups.size(), flight::kMaxGroups);
  EXPECT_EQ(recorder.snapshot().records.size(), flight::kMaxGroups + 1);
}

TEST(FlightRecorder, KnowsThePhaseAndSinceWhen) {
  FlightRecorder recorder(0, 1);
  EXPECT_EQ(recorder.snapshot().phase, Phase::start);
  const std::int64_t before = monotonic_ns();
  set_phase(&recorder, Phase::checkpoint);
  set_phase(nullptr, Phase::data);
  const RankFlight flight = recorder.snapshot();
  EXPECT_EQ(flight.phase, Phase::checkpoint);
  EXPECT_GE(flight.phase_since_ns, before);
  EXPECT_LE(flight.phase_since_ns, monotonic_ns());
  EXPECT_FALSE(flight.finished);
  recorder.finish();
  EXPECT_TRUE(recorder.snapshot().finished);
}

TEST(FlightRecorder, WhatWasRecordedBeforeGoesAlongIntoTheFile) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "run/flight/rank-0.ring";
  FlightRecorder recorder(0, 1);
  const auto group = recorder.add_group("world", 0, 1);
  const Ticket before = recorder.begin(group, "broadcast", "uint8", 3, 3, "the job");
  recorder.persist(file, 77);
  EXPECT_EQ(recorder.file(), file);
  recorder.ended(before, true);
  (void)recorder.begin(group, "all_reduce", "float32", 5, 20, "");
  const RankFlight flight = read_flight(file);
  EXPECT_EQ(flight.job, 77U);
  ASSERT_EQ(flight.records.size(), 2U);
  EXPECT_EQ(flight.records[0].state, CollectiveState::completed);
  EXPECT_EQ(flight.records[1].sequence, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file.parent_path()),
                          std::filesystem::directory_iterator()),
            1)
      << "a temporary file stayed";
}

TEST(FlightRecorder, ItsHeartBeatsWhileItHasAFile) {
  const test::ScratchFolder folder;
  FlightRecorder recorder(0, 1);
  recorder.persist(folder.path() / "rank-0.ring", 1);
  const std::int64_t first = recorder.snapshot().heartbeat_ns;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (recorder.snapshot().heartbeat_ns == first && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(recorder.snapshot().heartbeat_ns, first);
}

TEST(FlightRecorder, WithoutAPlaceForTheFileItGoesOnInMemory) {
  const test::ScratchFolder folder;
  const std::string in_the_way = folder.write("flight", "a file, not a folder");
  FlightRecorder recorder(0, 1);
  const auto group = recorder.add_group("world", 0, 1);
  EXPECT_THROW(recorder.persist(in_the_way + "/rank-0.ring", 1), EnvironmentFault);
  EXPECT_TRUE(recorder.file().empty());
  (void)recorder.begin(group, "barrier", "", 0, 0, "");
  EXPECT_EQ(recorder.snapshot().records.size(), 1U);
}

TEST(FlightRecorder, ItsFileSurvivesAKilledProcess) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "rank-0.ring";
  const pid_t child = ::fork();
  if (child == 0) {
    FlightRecorder recorder(0, 2);
    recorder.persist(file, 1);
    recorder.set_phase(Phase::forward);
    (void)recorder.begin(recorder.add_group("world", 0, 2), "all_reduce", "float32", 9, 36, "last");
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const RankFlight flight = read_flight(file);
  EXPECT_EQ(flight.phase, Phase::forward);
  EXPECT_EQ(last_of(flight).site, "last");
  EXPECT_TRUE(last_of(flight).in_flight());
}

TEST(FlightRecorder, AReaderNeverSeesHalfARecordWhileSeveralThreadsWrite) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "rank-0.ring";
  FlightRecorder recorder(0, 1);
  const auto group = recorder.add_group("world", 0, 1);
  recorder.persist(file, 1);
  std::atomic<bool> over{false};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&, t] {
      for (std::int64_t i = t; !over; i += 3) {
        const Ticket ticket =
            recorder.begin(group, "all_reduce", "float32", i, 4 * i, std::to_string(i));
        recorder.started(ticket);
        recorder.ended(ticket, true);
      }
    });
  }
  for (int reading = 0; reading < 40; ++reading) {
    const RankFlight flight = reading % 2 == 0 ? read_flight(file) : recorder.snapshot();
    for (const CollectiveRecord& record : flight.records) {
      ASSERT_EQ(record.bytes, 4 * record.count);
      ASSERT_EQ(record.site, std::to_string(record.count));
      ASSERT_EQ(record.in_flight(), record.finished_ns == 0);
    }
  }
  over = true;
  for (auto& writer : writers) writer.join();
}

// Printed to look at: what a record costs on this machine.
TEST(FlightRecorder, TellsWhatARecordCosts) {
  FlightRecorder recorder(0, 2);
  const auto group = recorder.add_group("world", 0, 2);
  constexpr int kRecords = 200'000;
  const std::int64_t begin = monotonic_ns();
  for (int i = 0; i < kRecords; ++i) {
    (void)recorder.begin(group, "all_reduce", "float32", i, 4, "bucket 4: conv1.weight");
  }
  const std::int64_t entered = monotonic_ns();
  const Ticket last = recorder.begin(group, "all_reduce", "float32", 1, 4, "");
  for (int i = 0; i < kRecords; ++i) recorder.ended(last, true);
  const std::int64_t end = monotonic_ns();
  std::printf("flight recorder: begin %.0f ns, ended %.0f ns\n",
              static_cast<double>(entered - begin) / kRecords,
              static_cast<double>(end - entered) / kRecords);
  EXPECT_EQ(recorder.snapshot().groups[group].entered, kRecords + 1);
}

}  // namespace
}  // namespace lockstep::comm
