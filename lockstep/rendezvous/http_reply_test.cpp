#include "lockstep/rendezvous/http_reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::rendezvous {
namespace {

using Took = HttpReply::Took;

/// What the last of all pieces gave.
Took add_in_pieces(HttpReply& reply, std::string_view bytes, std::size_t piece) {
  Took took = Took::need_more;
  for (; !bytes.empty() && took != Took::refused;
       bytes.remove_prefix(std::min(piece, bytes.size()))) {
    took = reply.add(bytes.substr(0, piece));
  }
  return took;
}

TEST(HttpReply, IsReadHoweverItArrives) {
  const std::string plain =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCONTENT-LENGTH:  5\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
  for (const std::size_t piece : {1UL, 3UL, 1000UL}) {
    HttpReply first;
    EXPECT_EQ(add_in_pieces(first, plain, piece), Took::complete);
    EXPECT_EQ(first.status(), 200);
    EXPECT_EQ(first.body(), "hello");
    EXPECT_FALSE(first.closes());
    HttpReply second;
    EXPECT_EQ(add_in_pieces(second, chunked, piece), Took::complete);
    EXPECT_EQ(second.status(), 404);
    EXPECT_EQ(second.body(), "hello");
    EXPECT_TRUE(second.closes());
  }
}

TEST(HttpReply, WithoutABodyIsCompleteAtItsHead) {
  HttpReply reply;
  EXPECT_EQ(reply.add("HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n"), Took::complete);
  EXPECT_EQ(reply.body(), "");
  EXPECT_TRUE(reply.closes());
}

TEST(HttpReply, WhatIsNoneIsRefused) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::vector<std::string> bad{
      "SSH-2.0-OpenSSH\r\n",
      "HTTP/2.0 200 OK\r\n",
      "HTTP/1.1 100 Continue\r\n",
      "HTTP/1.1 2x0 OK\r\n",
      ok + "no colon\r\n",
      ok + "\r\n",
      ok + "Content-Length: -1\r\n\r\n",
      ok + "Content-Length: 99999999999999999999999\r\n\r\n",
      ok + "Content-Length: 268435457\r\n\r\n",
      ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
      ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
      ok + "Transfer-Encoding: gzip\r\n\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
      ok + "Content-Length: 1\r\n\r\nab",
      ok + "A: " + std::string(kMaxHeadBytes, 'x'),
      ok + std::string(kMaxHeadBytes, 'x'),
  };
  for (const std::string& bytes : bad) {
    HttpReply reply;
    EXPECT_EQ(reply.add(bytes), Took::refused) << bytes.substr(0, 80);
    EXPECT_FALSE(reply.refusal().empty());
    EXPECT_EQ(reply.add("x"), Took::refused);
  }
}

TEST(HttpReply, AnnouncedBytesTakeNoMemoryBeforeTheyCome) {
  HttpReply reply;
  EXPECT_EQ(reply.add("HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\nab"), Took::need_more);
  EXPECT_LT(reply.body().capacity(), 1000U);
}

}  // namespace
}  // namespace lockstep::rendezvous
