// Any bytes as a flight file, read twice with a difference: accepted or refused with BadData.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_file.h"
#include "lockstep/comm/records/flight_verdict.h"
#include "tests/fuzz/verdict.h"

namespace comm = lockstep::comm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const comm::RankFlight flight = comm::parse_flight(bytes, bytes, "fuzz");
    std::int64_t last = 0;
    for (const comm::CollectiveRecord& record : flight.records) {
      LOCKSTEP_CHECK(record.index >= last && record.group < flight.groups.size(), "wrong accepted");
      LOCKSTEP_CHECK(!record.message || record.message->peer >= -1, "a peer that cannot be");
      last = record.index;
    }
    const comm::RankView view{flight, {}, flight.heartbeat_ns};
    LOCKSTEP_CHECK(!comm::judge({view}).text.empty(), "a verdict says something");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
