#include "lockstep/comm/shm/ring_writer.h"

#include <gtest/gtest.h>

namespace lockstep::comm::shm {
namespace {

/// Feeds the costs of a machine whose plain stores cost `cached` until `copies` are made; how many
/// of the last hundred were streamed.
int streamed_of_last_hundred(RingWriter& writer, double cached, int copies) {
  int streamed = 0;
  for (int i = 0; i < copies; ++i) {
    const bool streams = writer.streams_next();
    writer.note(!streams, streams ? 60 : cached);
    if (i >= copies - 100 && streams) ++streamed;
  }
  return streamed;
}

TEST(RingWriter, StoresPlainlyWhileTheReaderIsNear) {
  RingWriter writer;
  EXPECT_LE(streamed_of_last_hundred(writer, 58, 5000), 1);
  EXPECT_TRUE(writer.near());
}

TEST(RingWriter, StreamsWhenPlainStoresBecomeDearAndComesBackWhenTheyAreCheap) {
  RingWriter writer;
  streamed_of_last_hundred(writer, 58, 500);
  EXPECT_EQ(streamed_of_last_hundred(writer, 204, 400), 100);
  EXPECT_FALSE(writer.near());
  EXPECT_LE(streamed_of_last_hundred(writer, 58, 3000), 1);
  EXPECT_TRUE(writer.near());
}

TEST(RingWriter, FarAwayOnlyFewCopiesAreTried) {
  RingWriter writer;
  int plain = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool streams = writer.streams_next();
    if (!streams) ++plain;
    writer.note(!streams, streams ? 60 : 204);
  }
  EXPECT_LT(plain, 8'000);
}

TEST(RingWriter, OneInterruptedCopyChangesNothing) {
  RingWriter writer;
  streamed_of_last_hundred(writer, 58, 500);
  writer.note(true, 100'000);
  EXPECT_TRUE(writer.near());
  EXPECT_LE(streamed_of_last_hundred(writer, 58, 200), 1);
}

}  // namespace
}  // namespace lockstep::comm::shm
