// Ranks are threads, each with control connections of its own over loopback.
#include "lockstep/comm/control/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/control/silent_port_testing.h"
#include "lockstep/comm/control/slow_link_testing.h"
#include "lockstep/comm/records/process_state.h"
#include "lockstep/comm/shm/fingerprint.h"

namespace lockstep::comm::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using Sockets = std::vector<Fd>;
using Body = std::function<void(int rank, Sockets sockets, std::vector<Card> cards)>;

/// The doors' cards can be changed before anybody connects: a proxy stands in for a rank.
void on_ranks(
    int size, const Body& body,
    const std::function<void(std::vector<Card>&)>& change = [](auto&) {}) {
  std::vector<std::unique_ptr<Door>> doors;
  std::vector<Card> cards;
  for (int r = 0; r < size; ++r) {
    doors.push_back(std::make_unique<Door>("127.0.0.1"));
    cards.push_back(doors.back()->card());
  }
  change(cards);
  std::vector<std::future<void>> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.push_back(std::async(std::launch::async, [&, r] {
      const auto until = steady_clock::now() + seconds(20);
      body(r, doors[static_cast<std::size_t>(r)]->meet(r, cards, "test", until), cards);
    }));
  }
  for (auto& rank : ranks) rank.get();
}

void on_channels(int size, const std::function<void(int rank, Channel& channel)>& body,
                 const Limits& limits = {}) {
  on_ranks(size, [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
    Channel channel(rank, std::move(sockets), cards, limits);
    body(rank, channel);
  });
}

shm::Fingerprint sum_of(std::uint64_t count) {
  return shm::make_fingerprint(
      {.collective = shm::Collective::all_reduce, .type = shm::ElementType::f32}, count);
}

/// Enters with data that is there at once.
Outcome enter_and_wait(Channel& channel, const shm::Fingerprint& fingerprint,
                       std::string_view site = {}) {
  Transfer transfer{DataState::moving};
  channel.enter(fingerprint, site);
  const std::uint64_t sequence = channel.entered();
  channel.data_ended(transfer, true);
  return channel.wait(sequence, transfer, seconds(20));
}

std::string reason_of(Channel& channel) {
  const auto end = channel.over(seconds(20));
  return end ? end->reason : "not over";
}

TEST(ControlChannel, ACollectiveIsDoneWhenEveryRankHasEnteredTheSame) {
  on_channels(4, [](int rank, Channel& channel) {
    for (std::uint64_t i = 1; i <= 200; ++i) {
      if (rank == 3 && i == 100) std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(enter_and_wait(channel, sum_of(i)), Outcome::done);
    }
  });
}

TEST(ControlChannel, ManyInFlightAreDoneInWhateverOrderTheyAreWaitedFor) {
  on_channels(3, [](int, Channel& channel) {
    std::vector<Transfer> transfers(300);
    for (std::uint64_t i = 0; i < transfers.size(); ++i) channel.enter(sum_of(i), "bucket");
    std::thread mover([&] {
      for (auto& transfer : transfers) channel.data_ended(transfer, true);
    });
    for (std::uint64_t i = transfers.size(); i > 0; --i) {
      EXPECT_EQ(channel.wait(i, transfers[i - 1], seconds(20)), Outcome::done);
    }
    mover.join();
  });
}

TEST(ControlChannel, EveryRankHearsOfADifferenceWithBothSidesAndTheirCallSites) {
  on_channels(3, [](int rank, Channel& channel) {
    const auto start = steady_clock::now();
    Transfer never{DataState::moving};
    channel.enter(sum_of(rank == 1 ? 409598 : 409600), rank == 1 ? "bucket 7" : "bucket 3");
    EXPECT_EQ(channel.wait(1, never, seconds(20)), Outcome::over);
    EXPECT_LT(steady_clock::now() - start, seconds(5)) << "the deadline is 20 s";
    const auto end = channel.over();
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->disagreement);
    EXPECT_THAT(end->reason, HasSubstr("collective #1: rank "));
    EXPECT_THAT(end->reason, HasSubstr("entered all_reduce (sum) of 409600 float32 at bucket 3"));
    EXPECT_THAT(end->reason,
                HasSubstr("rank 1 entered all_reduce (sum) of 409598 float32 at bucket 7"));
  });
}

TEST(ControlChannel, DataThatProvesItselfNeedsNoWords) {
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_ranks(2, [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
    if (rank == 1) return is_over.wait();  // says nothing
    Channel channel(rank, std::move(sockets), cards);
    Transfer transfer{DataState::moving, Proof::data};
    channel.enter(sum_of(1), {}, Proof::data);
    EXPECT_FALSE(channel.poll(1, transfer));
    channel.data_ended(transfer, true);
    EXPECT_TRUE(channel.poll(1, transfer));
    EXPECT_EQ(channel.wait(1, transfer, seconds(20)), Outcome::done);
    over.set_value();
  });
}

TEST(ControlChannel, DataThatDoesNotComeMakesThemTalk) {
  on_channels(2, [](int rank, Channel& channel) {
    Transfer never{DataState::moving, Proof::data};
    channel.enter(sum_of(static_cast<std::uint64_t>(rank) + 1), {}, Proof::data);
    EXPECT_EQ(channel.wait(1, never, seconds(20)), Outcome::over);
    EXPECT_THAT(reason_of(channel), HasSubstr("rank 1 entered all_reduce (sum) of 2 float32"));
  });
}

TEST(ControlChannel, DataThatCameDoesNotHideADifference) {
  on_channels(2, [](int rank, Channel& channel) {
    EXPECT_EQ(enter_and_wait(channel, sum_of(static_cast<std::uint64_t>(rank) + 1)), Outcome::over);
    EXPECT_THAT(reason_of(channel), HasSubstr("rank 0 entered all_reduce (sum) of 1 float32"));
  });
}

TEST(ControlChannel, ADifferenceIsFoundAlsoWhenNobodyWaits) {
  on_channels(2, [](int rank, Channel& channel) {
    channel.enter(sum_of(static_cast<std::uint64_t>(rank) + 1), {});
    EXPECT_THAT(reason_of(channel), HasSubstr("rank 1 entered all_reduce (sum) of 2 float32"));
  });
}

TEST(ControlChannel, AnAbortReachesEveryRankInTheWordsOfTheFirst) {
  on_channels(4, [](int rank, Channel& channel) {
    if (rank == 2) channel.abort({false, "rank 2 ran out of data"});
    EXPECT_EQ(reason_of(channel), "rank 2 ran out of data");
  });
}

TEST(ControlChannel, ARankThatLeavesIsMissedOnlyByThoseWhoStillNeedIt) {
  std::atomic<int> looked{0};
  on_channels(3, [&](int rank, Channel& channel) {
    EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
    if (rank == 2) return;
    EXPECT_FALSE(channel.over(milliseconds(200)).has_value());
    looked.fetch_add(1);
    while (looked.load() < 2) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(enter_and_wait(channel, sum_of(2)), Outcome::over);
    EXPECT_THAT(reason_of(channel),
                testing::MatchesRegex("rank 2 \\(process .*has left the group"));
  });
}

TEST(ControlChannel, WhatAllHadEnteredBeforeARankLeftStillEndsWell) {
  std::promise<void> left;
  const auto has_left = left.get_future().share();
  on_channels(3, [&](int rank, Channel& channel) {
    if (rank == 2) {
      EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
      channel.leave();
      return has_left.wait();
    }
    if (rank == 0) {  // ends the group
      EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
      EXPECT_EQ(enter_and_wait(channel, sum_of(2)), Outcome::over);
      return has_left.wait();
    }
    Transfer late{DataState::moving};
    channel.enter(sum_of(1), {});
    EXPECT_THAT(reason_of(channel), HasSubstr("has left the group"));
    std::thread mover([&] {
      std::this_thread::sleep_for(milliseconds(5));
      channel.data_ended(late, true);
    });
    EXPECT_EQ(channel.wait(1, late, seconds(20)), Outcome::done);
    mover.join();
    Transfer never{DataState::moving};
    channel.enter(sum_of(2), {});
    EXPECT_EQ(channel.wait(2, never, seconds(20)), Outcome::over);
    left.set_value();
  });
}

TEST(ControlChannel, ItEndsWellAlsoWhereNotEveryRankHadTimeToSayThatItEntered) {
  std::promise<void> ended;
  const auto has_ended = ended.get_future().share();
  std::atomic<int> entered{0};
  on_channels(4, [&](int rank, Channel& channel) {
    Transfer late{DataState::moving, Proof::data};
    channel.enter(sum_of(1), {}, Proof::data);  // rank 3 says nothing of it: nobody waits there
    entered.fetch_add(1);
    while (entered.load() < 4) std::this_thread::sleep_for(milliseconds(1));
    if (rank == 3) return has_ended.wait();
    if (rank == 0) {
      channel.data_ended(late, true);
      EXPECT_EQ(channel.wait(1, late, seconds(20)), Outcome::done);
      channel.abort({false, "rank 0 ran out of data"});
      return has_ended.wait();
    }
    if (rank == 2) return has_ended.wait();
    EXPECT_EQ(reason_of(channel), "rank 0 ran out of data");
    std::thread mover([&] {
      std::this_thread::sleep_for(milliseconds(5));
      channel.data_ended(late, true);
    });
    EXPECT_EQ(channel.wait(1, late, seconds(20)), Outcome::done);
    mover.join();
    ended.set_value();
  });
}

TEST(ControlChannel, ARankWhoseConnectionsEndIsNamedByTheOthers) {
  on_ranks(3, [](int rank, Sockets sockets, const std::vector<Card>& cards) {
    if (rank == 1) return;  // as the kernel closes them for a killed process
    Channel channel(rank, std::move(sockets), cards);
    const auto start = steady_clock::now();
    EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::over);
    EXPECT_LT(steady_clock::now() - start, seconds(3));
    EXPECT_THAT(reason_of(channel),
                testing::MatchesRegex("rank 1 \\(process [0-9]+ on .*\\) ended"));
  });
}

/// Who hears of the end may end its process at once, and would be blamed for it.
TEST(ControlChannel, TheOthersAreToldOfTheEndBeforeAnybodyHereHearsOfIt) {
  for (int round = 0; round < 20; ++round) {
    std::promise<void> heard;
    on_ranks(2, [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
      if (rank == 1) {
        heard.get_future().wait();
        std::array<char, 256> words{};
        const auto count = ::recv(sockets[0].get(), words.data(), words.size(), MSG_DONTWAIT);
        ASSERT_GT(count, 0);
        EXPECT_THAT(std::string(words.data(), static_cast<std::size_t>(count)),
                    HasSubstr("out of data"));
        return;
      }
      Channel channel(rank, std::move(sockets), cards);
      std::thread waiter([&] {
        EXPECT_TRUE(channel.over(seconds(20)).has_value());
        heard.set_value();
      });
      std::this_thread::sleep_for(milliseconds(1));
      channel.abort({false, "out of data"});
      waiter.join();
    });
  }
}

TEST(ControlChannel, StepsOfADeclaredCollectiveAreDoneWhenAllHaveDeclaredIt) {
  on_channels(3, [](int rank, Channel& channel) {
    for (std::uint64_t i = 1; i <= 50; ++i) {
      channel.declare(sum_of(i), "bucket");
      const Transfer no_data{DataState::there};
      if (rank == 2 && i % 2 == 0) {  // takes no part in the data
        EXPECT_EQ(channel.wait(i, no_data, seconds(20)), Outcome::done);
        continue;
      }
      for (int step = 0; step < 3; ++step) {
        Transfer transfer{DataState::moving};
        channel.data_begins();
        channel.data_ended(transfer, true);
        EXPECT_EQ(channel.wait(i, transfer, seconds(20)), Outcome::done);
      }
    }
  });
}

TEST(ControlChannel, OtherDeclarationsAreFoundThoughNobodyWaits) {
  on_channels(2, [](int rank, Channel& channel) {
    channel.declare(sum_of(8), {});
    channel.declare(sum_of(static_cast<std::uint64_t>(rank) + 1), {});
    EXPECT_THAT(reason_of(channel), HasSubstr("collective #2: rank 0 entered all_reduce"));
  });
}

TEST(ControlChannel, ItsThreadTellsOfTheEndOnce) {
  on_ranks(2, [](int rank, Sockets sockets, const std::vector<Card>& cards) {
    std::atomic<int> told{0};
    std::promise<std::string> reason;
    Channel channel(rank, std::move(sockets), cards, {}, [&](const End& end) {
      if (told.fetch_add(1) == 0) reason.set_value(end.reason);
    });
    if (rank == 0) channel.abort({false, "rank 0 ran out of data"});
    EXPECT_EQ(reason.get_future().get(), "rank 0 ran out of data");
    channel.abort({false, "another reason"});
    channel.close();
    EXPECT_EQ(told.load(), 1);
  });
}

TEST(ControlChannel, WhatIsAbandonedIsOverHereAndNowhereElse) {
  std::promise<void> looked;
  const auto has_looked = looked.get_future().share();
  on_channels(2, [&](int rank, Channel& channel) {
    EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
    if (rank == 0) {
      Transfer never{DataState::moving};
      channel.enter(sum_of(2), {});
      channel.abandon("the group was closed");
      EXPECT_EQ(channel.wait(2, never, seconds(20)), Outcome::over);
      EXPECT_EQ(reason_of(channel), "the group was closed");
      return has_looked.wait();
    }
    EXPECT_FALSE(channel.over(milliseconds(150)).has_value());
    looked.set_value();
  });
}

TEST(ControlChannel, ATimeOutNamesWhoHasNotEntered) {
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_channels(2, [&](int rank, Channel& channel) {
    if (rank == 1) return is_over.wait();
    Transfer never{DataState::moving};
    channel.enter(sum_of(1), {});
    EXPECT_EQ(channel.wait(1, never, milliseconds(50)), Outcome::timed_out);
    EXPECT_EQ(channel.missing(1), "rank 1 has not entered it");
    over.set_value();
  });
}

/// What rank 0 says of a rank that says nothing, and after how long.
std::pair<std::string, steady_clock::duration> verdict_on_silence(const Limits& limits,
                                                                  int knock_at) {
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  std::pair<std::string, steady_clock::duration> verdict;
  on_ranks(2, [&](int rank, Sockets sockets, std::vector<Card> cards) {
    if (rank == 1) return is_over.wait();  // nothing comes, nothing ends
    if (knock_at != 0) cards[1].port = knock_at;
    const auto start = steady_clock::now();
    Channel channel(rank, std::move(sockets), cards, limits);
    verdict = {reason_of(channel), steady_clock::now() - start};
    over.set_value();
  });
  return verdict;
}

TEST(ControlChannel, APeerThatFallsSilentWithItsHostIsLost) {
  const SilentPort nobody;
  const auto [reason, took] = verdict_on_silence(
      {.heartbeat = milliseconds(50), .knock = milliseconds(100), .silence = milliseconds(400)},
      nobody.number());
  EXPECT_THAT(reason, HasSubstr("its host does not answer: the network to it is cut"));
  EXPECT_LT(took, seconds(5)) << "its patience is 15 s";
}

TEST(ControlChannel, APeerWhoseHostAnswersIsGivenMoreTime) {
  const auto [reason, took] = verdict_on_silence({.heartbeat = milliseconds(50),
                                                  .knock = milliseconds(50),
                                                  .silence = milliseconds(600),
                                                  .patience = milliseconds(900)},
                                                 0);
  EXPECT_THAT(reason, HasSubstr("though its host answers: it is stopped, or starved"));
  EXPECT_GE(took, milliseconds(900));
}

TEST(ControlChannel, AStoppedProcessOfThisHostIsToldFromADeadNetwork) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  const Limits limits{.heartbeat = milliseconds(50),
                      .knock = milliseconds(100),
                      .look_at_process = milliseconds(200)};
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_ranks(
      2,
      [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
        if (rank == 1) return is_over.wait();
        Channel channel(rank, std::move(sockets), cards, limits);
        EXPECT_THAT(reason_of(channel), HasSubstr("is stopped (state T)"));
        over.set_value();
      },
      [&](std::vector<Card>& cards) {
        cards[1].process.pid = child;
        cards[1].process.start_ticks = 0;
      });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ControlChannel, ARoundTripOf200MillisecondsIsNoFault) {
  const Limits limits{
      .heartbeat = milliseconds(400), .knock = milliseconds(800), .silence = milliseconds(2000)};
  std::unique_ptr<SlowLink> link;
  on_ranks(
      2,
      [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
        Channel channel(rank, std::move(sockets), cards, limits);
        EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
        EXPECT_FALSE(channel.over(milliseconds(2500)).has_value());
        EXPECT_EQ(enter_and_wait(channel, sum_of(2)), Outcome::done);
      },
      [&](std::vector<Card>& cards) {
        link = std::make_unique<SlowLink>(cards[0].port, milliseconds(100));
        cards[0].port = link->port();
      });
}

TEST(ControlChannel, BothSidesOfACutLinkNoticeAndAThirdRankHearsOfIt) {
  const Limits limits{
      .heartbeat = milliseconds(50), .knock = milliseconds(100), .patience = milliseconds(500)};
  std::unique_ptr<SlowLink> link;
  std::atomic<int> through{0};
  on_ranks(
      3,
      [&](int rank, Sockets sockets, const std::vector<Card>& cards) {
        Channel channel(rank, std::move(sockets), cards, limits);
        EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
        if (through.fetch_add(1) == 2) link->cut();
        EXPECT_THAT(reason_of(channel),
                    testing::MatchesRegex("rank [12] \\(.*has not been heard for .*"));
      },
      [&](std::vector<Card>& cards) {  // only rank 2 reaches rank 1 through it
        link = std::make_unique<SlowLink>(cards[1].port, milliseconds(1));
        cards[1].port = link->port();
      });
}

TEST(ControlDoor, StrangersAreTurnedAway) {
  on_ranks(
      2,
      [](int rank, Sockets sockets, const std::vector<Card>& cards) {
        Channel channel(rank, std::move(sockets), cards);
        EXPECT_EQ(enter_and_wait(channel, sum_of(1)), Outcome::done);
      },
      [&](std::vector<Card>& cards) {
        const int port = cards[0].port;
        const auto knock = [port](std::string bytes) {
          const Fd socket = connect_to("127.0.0.1", port, steady_clock::now() + seconds(5));
          bytes.resize(std::max(bytes.size(), kHeadBytes), 'x');
          (void)write_all(socket.get(),
                          {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()},
                          steady_clock::now() + seconds(5));
        };
        knock("GET / HTTP/1.1\r\n\r\n");
        std::string wrong_token;
        append(wrong_token, {Word::hello, false, 1, cards[0].token + 1});
        knock(wrong_token);
      });
}

TEST(ControlDoor, NamesTheRanksThatDoNotCome) {
  Door door("127.0.0.1");
  const std::vector<Card> cards(3, door.card());
  try {
    (void)door.meet(0, cards, "rank 0 of 3", steady_clock::now() + milliseconds(50));
    FAIL() << "nobody came";
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.problems().front().code, "LS-4005");
    EXPECT_THAT(lost.problems().front().what, HasSubstr("ranks 1, 2 did not make a control"));
  }
}

TEST(ControlDoor, ACardComesBackFromItsTextAndOtherTextIsRefused) {
  Door door("127.0.0.1");
  const Card card = card_from_text(to_text(door.card()));
  EXPECT_EQ(card.host, "127.0.0.1");
  EXPECT_EQ(card.port, door.card().port);
  EXPECT_EQ(card.token, door.card().token);
  EXPECT_EQ(card.process.pid, ::getpid());
  EXPECT_EQ(card.process.boot_id, own_identity().boot_id);
  for (const char* text : {"", "127.0.0.1 80", "a b c d e f g h", "a 1 1 1 1 1 b c d"}) {
    EXPECT_THROW((void)card_from_text(text), BadData) << text;
  }
}

}  // namespace
}  // namespace lockstep::comm::control
