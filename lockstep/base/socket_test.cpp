#include "lockstep/base/socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/port_holder.h"

namespace lockstep {
namespace {

Deadline in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

TEST(Socket, CarriesMoreThanABufferBothWays) {
  const Listener listener = listen_on("127.0.0.1", 0);
  const std::vector<std::uint8_t> sent(std::size_t{4} << 20, 7);
  std::vector<std::uint8_t> got(sent.size());
  std::thread writer([&] {
    const Fd fd = connect_to("127.0.0.1", listener.port, in_ms(10'000));
    EXPECT_EQ(write_all(fd.get(), sent, in_ms(10'000)), IoEnd::done);
  });
  Fd peer;
  while (!peer) peer.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
  EXPECT_EQ(read_exact(peer.get(), got, in_ms(10'000)), IoEnd::done);
  writer.join();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(read_exact(peer.get(), std::span(got).first(1), in_ms(10'000)), IoEnd::closed);
}

TEST(Socket, AReadThatGetsNothingEndsAtItsDeadline) {
  const Listener listener = listen_on("127.0.0.1", 0);
  const Fd fd = connect_to("127.0.0.1", listener.port, in_ms(10'000));
  std::array<std::uint8_t, 1> byte{};
  EXPECT_EQ(read_exact(fd.get(), byte, in_ms(10)), IoEnd::timed_out);
}

TEST(Socket, WaitsForAServerThatStartsLater) {
  const int port = listen_on("127.0.0.1", 0).port;
  Listener listener;
  std::thread server([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    listener = listen_on("127.0.0.1", port);
  });
  EXPECT_TRUE(static_cast<bool>(connect_to("127.0.0.1", port, in_ms(10'000))));
  server.join();
}

TEST(Socket, BadAddressesAreNamed) {
  for (const char* host : {"no-such-host.invalid", "unix:"}) {
    try {
      (void)connect_to(host, 1, in_ms(10));
      FAIL() << host;
    } catch (const EnvironmentFault& error) {
      EXPECT_EQ(error.problems()[0].code, "LS-3002") << host;
    }
  }
  EXPECT_THROW((void)listen_on("unix:" + std::string(200, 'x'), 0), EnvironmentFault);
  EXPECT_THROW((void)listen_on("127.0.0.1", 65536), EnvironmentFault);
}

TEST(Socket, AddressesReadAsPeopleWriteThem) {
  EXPECT_EQ(address_text("node1", 29500), "node1:29500");
  EXPECT_EQ(address_text("::1", 80), "[::1]:80");
  EXPECT_EQ(address_text("unix:@job", 0), "unix:@job");
}

TEST(PortHolder, IsTheProcessThatListens) {
  const Listener listener = listen_on("127.0.0.1", 0);
  EXPECT_EQ(port_holder(listener.port), process_text(::getpid()));
  EXPECT_TRUE(process_text(::getpid()).starts_with("pid " + std::to_string(::getpid()) + " ("));
}

TEST(PortHolder, OfAFreePortIsNobody) {
  const int port = listen_on("127.0.0.1", 0).port;
  EXPECT_EQ(port_holder(port), "");
}

}  // namespace
}  // namespace lockstep
