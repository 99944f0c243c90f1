#include "lockstep/store/frame.h"

#include <gtest/gtest.h>

#include <span>

namespace lockstep::store {
namespace {

Bytes set_request() { return FrameWriter(Query::set).text("/key").text(Bytes{1, 2, 3}).take(); }

TEST(RequestParser, ARequestMayArriveByteByByte) {
  const Bytes bytes = set_request();
  RequestParser parser;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    ASSERT_EQ(parser.advance(std::span(bytes).first(n)), ParseStatus::need_more) << n;
  }
  ASSERT_EQ(parser.advance(bytes), ParseStatus::complete);
  const auto parsed = parser.take();
  EXPECT_EQ(parsed.bytes, bytes.size());
  EXPECT_EQ(parsed.request.keys, std::vector<std::string>{"/key"});
  EXPECT_EQ(parsed.request.values, (std::vector<Bytes>{{1, 2, 3}}));
}

TEST(RequestParser, LeavesTheBytesOfTheNextRequestAlone) {
  Bytes bytes = set_request();
  const std::size_t one = bytes.size();
  bytes.push_back(static_cast<std::uint8_t>(Query::num_keys));
  RequestParser parser;
  ASSERT_EQ(parser.advance(bytes), ParseStatus::complete);
  EXPECT_EQ(parser.take().bytes, one);
  ASSERT_EQ(parser.advance(std::span(bytes).subspan(one)), ParseStatus::complete);
  EXPECT_EQ(parser.take().request.query, Query::num_keys);
}

TEST(RequestParser, ReadsListsOfPairs) {
  const Bytes bytes =
      FrameWriter(Query::multi_set).u64(2).text("a").text(Bytes{7}).text("b").text(Bytes{}).take();
  RequestParser parser;
  ASSERT_EQ(parser.advance(bytes), ParseStatus::complete);
  const Request request = parser.take().request;
  EXPECT_EQ(request.keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.values, (std::vector<Bytes>{{7}, {}}));
}

TEST(RequestParser, AnEmptyListIsARequest) {
  RequestParser parser;
  EXPECT_EQ(parser.advance(FrameWriter(Query::wait).u64(0).take()), ParseStatus::complete);
}

TEST(RequestParser, RefusesLengthsBeforeTheirBytesExist) {
  const struct {
    Bytes bytes;
    const char* why;
  } hostile[] = {
      {FrameWriter(Query::get).u64(kMaxKeyBytes + 1).take(), "a key of 65537 bytes"},
      {FrameWriter(Query::get).u64(~std::uint64_t{0}).take(),
       "a key of 18446744073709551615 bytes"},
      {FrameWriter(Query::set).text("k").u64(kMaxValueBytes + 1).take(),
       "a value of 67108865 bytes"},
      {FrameWriter(Query::multi_get).u64(std::uint64_t{1} << 60).take(),
       "a count of 1152921504606846976 keys"},
      {Bytes{18}, "unknown query 18"},
      {Bytes{255}, "unknown query 255"},
  };
  for (const auto& [bytes, why] : hostile) {
    RequestParser parser;
    EXPECT_EQ(parser.advance(bytes), ParseStatus::refused);
    EXPECT_EQ(parser.refusal(), why);
  }
}

TEST(FrameWriter, IntegersAreLittleEndian) {
  EXPECT_EQ(FrameWriter().u32(kMagic).take(), (Bytes{0xCE, 0xF7, 0x85, 0x3C}));
  EXPECT_EQ(FrameWriter().text("ab").take(), (Bytes{2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
  const Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(read_little_endian(bytes, 8), 0x0807060504030201ULL);
  EXPECT_EQ(read_little_endian(bytes, 1), 1U);
}

}  // namespace
}  // namespace lockstep::store
