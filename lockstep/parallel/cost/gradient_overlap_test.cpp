#include "lockstep/parallel/cost/gradient_overlap.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

/// A byte takes a second, and nothing else does.
struct SlowLink {
  Machine machine;
  ExchangePrice price;
  SlowLink() {
    machine.devices = 2;
    machine.devices_per_host = 2;
    machine.inside = {"slow", "", 1, 1, 0};
    price = {Collective::all_reduce, {2, 2}, &machine, Algorithm::ring};
  }
};

TEST(GradientOverlap, HidesAllButTheLastBucketWhereComputingIsLonger) {
  const SlowLink link;
  BucketQueue queue(link.price, 2);  // 2 bytes over 2 ranks take 2 s
  queue.add({4, 10, 2});
  queue.flush();
  EXPECT_DOUBLE_EQ(queue.clock_s(), 40);
  EXPECT_DOUBLE_EQ(queue.busy_s(), 8);
  EXPECT_DOUBLE_EQ(queue.exposed_s(), 2);
}

TEST(GradientOverlap, OfASlowLinkEndsWhenAllBucketsAreThrough) {
  const SlowLink link;
  BucketQueue queue(link.price, 2);
  queue.add({4, 1, 2});  // the first bucket is ready at 1, four take 8
  queue.flush();
  EXPECT_DOUBLE_EQ(queue.end_s(), 9);
  EXPECT_DOUBLE_EQ(queue.exposed_s(), 5);
}

TEST(GradientOverlap, WaitsUntilABucketIsFullOrBackwardEnds) {
  const SlowLink link;
  BucketQueue queue(link.price, 100);
  queue.add({1, 5, 60});
  queue.add({1, 8, 80});  // full at 9
  std::vector<Bucket> list;
  BucketQueue listed(link.price, 100, &list);
  listed.add({1, 5, 60});
  listed.add({1, 8, 80});
  listed.flush();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_DOUBLE_EQ(list[0].begin_s, 9);
  EXPECT_DOUBLE_EQ(list[0].end_s, 109);
  EXPECT_DOUBLE_EQ(list[1].bytes, 40);
  EXPECT_DOUBLE_EQ(list[1].end_s, 149);
}

TEST(GradientOverlap, EndsAtTheSameTimeWhetherBucketsAreListedOrNot) {
  const SlowLink link;
  for (const double bucket : {0.0, 1.0, 3.0, 7.5, 1000.0}) {
    std::vector<Bucket> list;
    BucketQueue listed(link.price, bucket, &list);
    BucketQueue counted(link.price, bucket);
    for (BucketQueue* queue : {&listed, &counted}) {
      queue->add({3, 2, 4});
      queue->wait_until(30);
      queue->add({50, 3, 2});
      queue->add({1, 1, 0});
      queue->add({2, 0.5, 21});
      queue->flush();
    }
    EXPECT_NEAR(listed.end_s(), counted.end_s(), 1e-9) << bucket;
    EXPECT_DOUBLE_EQ(listed.busy_s(), counted.busy_s());
    double bytes = 0;
    for (const Bucket& one : list) bytes += one.bytes;
    EXPECT_NEAR(bytes, 12 + 100 + 42, 1e-9) << bucket;
  }
}

TEST(GradientOverlap, CutsByTimeAndLosesNothing) {
  const std::vector<GradientPart> parts{{1, 3, 30}, {4, 2, 10}, {1, 1, 500}};
  const auto cut = cut_by_time(parts, 3);  // 12 s
  ASSERT_EQ(cut.size(), 3U);
  double bytes = 0;
  for (const auto& piece : cut) {
    double seconds = 0;
    for (const GradientPart& part : piece) {
      seconds += static_cast<double>(part.count) * part.seconds;
      bytes += static_cast<double>(part.count) * part.bytes;
    }
    EXPECT_NEAR(seconds, 4, 1e-9);
  }
  EXPECT_NEAR(bytes, 570, 1e-9);
  EXPECT_GE(cut.back().back().bytes, 500) << "what is ready last is exchanged last";
}

}  // namespace
}  // namespace lockstep::parallel
