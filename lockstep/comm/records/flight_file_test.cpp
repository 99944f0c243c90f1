#include "lockstep/comm/records/flight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_layout.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::comm {
namespace {

using testing::HasSubstr;

class FlightFile : public testing::Test {
 protected:
  void SetUp() override {
    FlightRecorder recorder(0, 2);
    const auto group = recorder.add_group("world", 0, 2);
    recorder.ended(recorder.begin(group, "all_reduce", "float32", 7, 28, "bucket 0"), true);
    recorder.persist(folder_.path() / "rank-0.ring", 5);
    std::ifstream in(folder_.path() / "rank-0.ring", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }

  template <typename T>
  void set(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }
  template <typename T>
  void set_in_record(std::size_t offset, T value) {
    set(flight::kHeaderBytes + sizeof(flight::Word) + offset, value);
  }
  [[nodiscard]] RankFlight parse() const {
    const auto bytes = std::as_bytes(std::span(bytes_));
    return parse_flight(bytes, bytes, "rank-0.ring");
  }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)parse();
      return "";
    } catch (const BadData& error) {
      EXPECT_EQ(error.problems().front().code, "LS-4021");
      EXPECT_EQ(error.problems().front().where, "rank-0.ring");
      return error.problems().front().what;
    }
  }

  test::ScratchFolder folder_;
  std::string bytes_;
};

TEST_F(FlightFile, GivesBackWhatWasRecorded) {
  const RankFlight flight = parse();
  EXPECT_EQ(flight.job, 5U);
  EXPECT_EQ(flight.world_size, 2);
  ASSERT_EQ(flight.records.size(), 1U);
  EXPECT_EQ(describe(flight.records[0]), "all_reduce #1 (float32, 7 elements)");
  EXPECT_EQ(flight.records[0].bytes, 28);
}

TEST_F(FlightFile, EveryFieldOutOfItsRangeIsRefusedByName) {
  const std::string whole = bytes_;
  const auto refused = [&](std::size_t offset, auto value) {
    bytes_ = whole;
    set(offset, value);
    return refusal();
  };
  using flight::Header;
  EXPECT_EQ(refused(offsetof(Header, magic), std::uint64_t{1}), "wrong magic");
  EXPECT_EQ(refused(offsetof(Header, version), 1U), "wrong version");
  EXPECT_EQ(refused(offsetof(Header, header_bytes), 64U), "wrong header size");
  EXPECT_EQ(refused(offsetof(Header, record_bytes), 1U), "wrong record size");
  EXPECT_EQ(refused(offsetof(Header, capacity), 0U), "wrong capacity");
  EXPECT_EQ(refused(offsetof(Header, capacity), ~0U), "wrong capacity");
  EXPECT_EQ(refused(offsetof(Header, capacity), 4095U), "wrong file size");
  EXPECT_EQ(refused(offsetof(Header, pid), std::int64_t{-1}), "wrong pid");
  EXPECT_EQ(refused(offsetof(Header, rank), 2U), "wrong rank or world size");
  EXPECT_EQ(refused(offsetof(Header, world_size), 0U), "wrong rank or world size");
  EXPECT_EQ(refused(offsetof(Header, phase), std::uint64_t{15}), "wrong phase");
  EXPECT_EQ(refused(offsetof(Header, finished), std::uint64_t{2}), "wrong end");
  EXPECT_EQ(refused(offsetof(Header, heartbeat), ~std::uint64_t{0}), "wrong heartbeat");
  EXPECT_EQ(refused(offsetof(Header, group_count), std::uint64_t{57}), "wrong number of groups");
  EXPECT_EQ(refused(offsetof(Header, groups) + offsetof(flight::Group, size), 0U),
            "wrong rank or size of a group");
}

TEST_F(FlightFile, ARecordOutOfItsRangeIsRefused) {
  const std::string whole = bytes_;
  const auto refused = [&](std::size_t offset, std::uint64_t value) {
    bytes_ = whole;
    set_in_record(offset, value);
    return refusal();
  };
  using Words = flight::RecordWords;
  EXPECT_EQ(refused(offsetof(Words, index), 2), "wrong place of a record");
  EXPECT_EQ(refused(offsetof(Words, count), ~std::uint64_t{0}), "wrong count");
  EXPECT_EQ(refused(offsetof(Words, entered_ns), 1ULL << 63), "wrong time entered");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 4), "wrong state of a record");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 1 << 8), "wrong group of a record");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 3 << 16), "wrong kind of a record");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 1 << 24), "wrong kind of a record");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 1ULL << 32), "wrong peer of a collective");
  EXPECT_EQ(refused(offsetof(Words, state_and_group), 2U << 16 | 1ULL << 60),
            "wrong peer of a message");
}

TEST_F(FlightFile, AFileThatIsCutOffOrNoneIsRefused) {
  bytes_.resize(bytes_.size() - 1);
  EXPECT_EQ(refusal(), "wrong file size");
  bytes_.resize(100);
  EXPECT_THAT(refusal(), HasSubstr("too short: 100 bytes"));
  bytes_.clear();
  EXPECT_THAT(refusal(), HasSubstr("too short"));
}

TEST_F(FlightFile, ARecordThatChangedBetweenTwoReadingsIsLeftOut) {
  const std::string before = bytes_;
  set(flight::kHeaderBytes, std::uint64_t{100});
  const auto first = std::as_bytes(std::span(before));
  const auto second = std::as_bytes(std::span(bytes_));
  EXPECT_TRUE(parse_flight(first, second, "x").records.empty());
  set(flight::kHeaderBytes, std::uint64_t{101});  // a writer was killed in the middle
  EXPECT_TRUE(parse_flight(second, second, "x").records.empty());
}

TEST_F(FlightFile, TextsCarryNoTerminalCommands) {
  set_in_record(offsetof(flight::RecordWords, site), std::array<char, 4>{'\x1b', '[', '2', 'J'});
  EXPECT_EQ(parse().records[0].site, "?[2Jet 0");
}

TEST_F(FlightFile, ReadingWhatIsNoFileIsAnError) {
  EXPECT_THROW((void)read_flight(folder_.path() / "none"), EnvironmentFault);
  EXPECT_THROW((void)read_flight(folder_.path()), Error);
  const std::string pipe = folder_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW((void)read_flight(pipe), BadData) << "and it must not wait for a writer";
  EXPECT_THROW((void)read_flight(folder_.write("page", "<!DOCTYPE html>")), BadData);
}

}  // namespace
}  // namespace lockstep::comm
