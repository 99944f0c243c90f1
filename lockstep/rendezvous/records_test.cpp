#include "lockstep/rendezvous/records.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::rendezvous {
namespace {

Failure some_failure(int rank) {
  Failure failure;
  failure.host = "node7";
  failure.rank = rank;
  failure.local_rank = 1;
  failure.pid = 4711;
  failure.exit_code = -1;
  failure.signal = 9;
  failure.seconds = 2.25;
  failure.consequence = rank > 0;
  failure.because = "killed by SIGKILL";
  failure.text = "Traceback: \"ä\"\n  line 1";
  return failure;
}

Record some_record() {
  Record record;
  record.agent = {"a1", "node7", "10.0.0.7", 77,    "boot-ns",
                  3,    4,       "trainer",  29500, {{"driver", "550.54"}, {"version", "0.1.0"}}};
  record.beat = 12345;
  record.version = 9;
  record.generation = 4;
  record.cleared = 3;
  record.ranks = {4, RanksReport::Kind::failed, {some_failure(0), some_failure(1)}, true, 17};
  record.leaving = record.finished = true;
  return record;
}

JobState some_state() {
  JobState state;
  state.run_id = "job";
  state.leader = "a1";
  state.leader_name = "node7 (pid 77)";
  state.version = 9;
  state.phase = JobState::Phase::ended;
  state.generation = 4;
  state.first_generation = 2;
  state.restart_count = 1;
  state.max_restarts = 3;
  Agent agent = some_record().agent;
  agent.machine.clear();
  agent.equal.clear();
  state.seats = {{agent, 0}, {agent, 4}};
  state.cause = StopCause::lost;
  state.because = "node8 is gone";
  state.waiting_for = "1 host";
  state.last_end = "round 3 ended";
  state.lost = {"node8"};
  state.equal = {{"version", "0.1.0"}};
  state.refused = {{"a2", Exit::usage, {"LS-3022", "node9", "node 3 already joined", "leave"}}};
  state.strikes = {{"boot-ns", 2, 12.5}};
  state.best_step = 17;
  state.rounds_at_best = 1;
  state.verdict = Verdict{Exit::failed, some_failure(0), {some_failure(1)}, "no restart is left"};
  return state;
}

TEST(Records, ComeBackAsTheyWereWritten) {
  EXPECT_EQ(record_from(to_bytes(some_record())), some_record());
  EXPECT_EQ(state_from(to_bytes(some_state())), some_state());
  EXPECT_EQ(state_from(to_bytes(JobState{})), JobState{});
}

TEST(Records, LongAndBrokenTextsAreCutSoThatOthersCanReadThem) {
  Record record = some_record();
  for (std::size_t bytes = 16000; bytes < 17000; bytes += 7) {
    record.ranks.failures[0].text = std::string(bytes, 'x') + "äöü€";
    EXPECT_LE(record_from(to_bytes(record)).ranks.failures[0].text.size(), 16384U);
  }
  record.ranks.failures.assign(500, some_failure(1));
  for (Failure& failure : record.ranks.failures) {
    failure.because = failure.text = std::string(100'000, '\xff');
  }
  const std::string bytes = to_bytes(record);
  EXPECT_LE(bytes.size(), kMostRecordBytes);
  EXPECT_FALSE(record_from(bytes).ranks.failures.empty());
}

TEST(Records, TheLargestStateKeepsTheLimit) {
  JobState state = some_state();
  state.phase = JobState::Phase::running;
  state.seats.assign(kMostSeats, state.seats[0]);
  state.refused.assign(1000, state.refused[0]);
  state.verdict->consequences.assign(1000, some_failure(1));
  for (Failure& failure : state.verdict->consequences) failure.text = std::string(50'000, '\x01');
  const std::string bytes = to_bytes(state);
  EXPECT_LE(bytes.size(), kMostStateBytes);
  EXPECT_EQ(state_from(bytes).seats.size(), kMostSeats);
}

TEST(Records, WhatIsNoRecordIsRefusedWithTheField) {
  const std::string good = to_bytes(some_record());
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    std::string bytes = good;
    const std::size_t place = bytes.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    bytes.replace(place, from.size(), to);
    try {
      (void)record_from(bytes);
      return "accepted";
    } catch (const BadData& error) {
      return error.problems().front().what;
    }
  };
  EXPECT_EQ(refusal("\"pid\":77", "\"pid\":-1"), "field 'pid' is out of range");
  EXPECT_EQ(refusal("\"ranks\":4", "\"ranks\":0"), "field 'ranks' is out of range");
  EXPECT_EQ(refusal("\"beat\":12345", "\"beat\":1e9"), "field 'beat' is not an integer");
  EXPECT_EQ(refusal("\"kind\":\"failed\"", "\"kind\":\"gone\""), "field 'kind' is unknown");
  EXPECT_EQ(refusal("\"seconds\":2.25", "\"seconds\":null"), "field 'seconds' is not finite");
  EXPECT_EQ(refusal("\"id\":\"a1\"", "\"id\":\"\""), "field 'id' is empty");
  EXPECT_EQ(refusal("\"host\":\"node7\"", "\"host\":\"" + std::string(1000, 'h') + "\""),
            "field 'host' is too long");
  EXPECT_EQ(refusal("\"cleared\":3,", ""), "has no field 'cleared'");
  EXPECT_THROW((void)record_from(std::string(kMostRecordBytes + 1, ' ')), BadData);
  EXPECT_THROW((void)state_from(R"({"phase":"ended"})"), BadData);
}

TEST(Records, AnEndWithoutAVerdictIsRefused) {
  JobState state = some_state();
  state.verdict.reset();
  EXPECT_THROW((void)state_from(to_bytes(state)), BadData);
}

}  // namespace
}  // namespace lockstep::rendezvous
