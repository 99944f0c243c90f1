// Messages between two ranks: order, tags, sizes of one and of many pieces, and what must not
// match.
#include "lockstep/comm/shm/mailbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm {
namespace {

using testing::run_ranks;
using namespace std::chrono_literals;
using Values = std::vector<std::int32_t>;

constexpr std::chrono::seconds kDeadline{60};

TransferRequest request_of(bool sends, int peer, int tag, Values& values) {
  return {.sends = sends,
          .peer = peer,
          .tag = tag,
          .type = ElementType::i32,
          .data = values.data(),
          .bytes = values.size() * sizeof(std::int32_t),
          .owner = nullptr};
}

std::shared_ptr<Transfer> send(Engine& engine, int peer, int tag, Values& values) {
  return engine.transfer(request_of(true, peer, tag, values));
}

std::shared_ptr<Transfer> receive(Engine& engine, int peer, int tag, Values& values) {
  return engine.transfer(request_of(false, peer, tag, values));
}

Values message(int from, int to, int number, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = from * 1000000 + to * 100000 + number * 1000 + static_cast<int>(i % 1000);
  }
  return values;
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(Mailbox, MessagesOfEverySizeArriveInOrder) {
  expect_no_errors(run_ranks(2, [](Engine& engine, const Segment& segment) {
    int number = 0;
    for (const std::size_t count : {0U, 1U, 100U, 8191U, 8192U, 8193U, 16384U, 100003U}) {
      Values values = message(0, 1, ++number, count);
      if (segment.rank() == 0) {
        engine.wait(*send(engine, 1, 0, values), kDeadline);
      } else {
        Values got(count);
        engine.wait(*receive(engine, 0, 0, got), kDeadline);
        EXPECT_EQ(got, values) << count;
      }
    }
  }));
}

TEST(Mailbox, BothRanksMaySendBeforeTheyReceiveOrTheOtherWayRound) {
  for (const bool sends_first : {true, false}) {
    expect_no_errors(run_ranks(2, [&](Engine& engine, const Segment& segment) {
      const int me = segment.rank();
      Values out = message(me, 1 - me, 1, 200000);
      Values in(200000);
      std::shared_ptr<Transfer> sending;
      std::shared_ptr<Transfer> receiving;
      if (sends_first) sending = send(engine, 1 - me, 0, out);
      receiving = receive(engine, 1 - me, 0, in);
      if (!sends_first) sending = send(engine, 1 - me, 0, out);
      engine.wait(sends_first ? *sending : *receiving, kDeadline);
      engine.wait(sends_first ? *receiving : *sending, kDeadline);
      EXPECT_EQ(in, message(1 - me, me, 1, 200000));
    }));
  }
}

TEST(Mailbox, AnotherTagWaitsItsTurn) {
  expect_no_errors(run_ranks(2, [](Engine& engine, const Segment& segment) {
    constexpr std::size_t kCount = 50000;  // more than a mailbox holds
    std::vector<Values> values;
    std::vector<std::shared_ptr<Transfer>> transfers;
    for (int tag = 0; tag < 4; ++tag) values.push_back(message(0, 1, tag, kCount));
    if (segment.rank() == 0) {
      for (int tag = 0; tag < 4; ++tag) {
        transfers.push_back(send(engine, 1, tag, values[static_cast<std::size_t>(tag)]));
      }
      for (auto& transfer : transfers) engine.wait(*transfer, kDeadline);
      return;
    }
    for (int tag = 3; tag >= 0; --tag) {
      Values got(kCount);
      engine.wait(*receive(engine, 0, tag, got), kDeadline);
      EXPECT_EQ(got, values[static_cast<std::size_t>(tag)]) << tag;
    }
  }));
}

TEST(Mailbox, AReceiveFromAnyRankTellsWhoSent) {
  expect_no_errors(run_ranks(4, [](Engine& engine, const Segment& segment) {
    const int me = segment.rank();
    if (me != 0) {
      Values values = message(me, 0, 1, 20000);
      engine.wait(*send(engine, 0, 5, values), kDeadline);
      return;
    }
    std::vector<int> senders;
    for (int i = 0; i < 3; ++i) {
      Values got(20000);
      const auto transfer = receive(engine, kAnyRank, 5, got);
      engine.wait(*transfer, kDeadline);
      EXPECT_EQ(got, message(transfer->peer(), 0, 1, 20000));
      senders.push_back(transfer->peer());
    }
    std::sort(senders.begin(), senders.end());
    EXPECT_EQ(senders, (std::vector<int>{1, 2, 3}));
  }));
}

TEST(Mailbox, ASizeOrTypeThatIsNotExpectedIsRefusedOnBothRanks) {
  for (const bool other_type : {true, false}) {
    const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
      Values values(segment.rank() == 0 || other_type ? 8 : 9);
      TransferRequest request = request_of(segment.rank() == 0, 1 - segment.rank(), 2, values);
      if (other_type && segment.rank() == 1) request.type = ElementType::f32;
      engine.wait(*engine.transfer(request), kDeadline);
      ADD_FAILURE() << "a mismatch was not noticed";
    });
    for (const auto& error : errors) {
      EXPECT_NE(error.find("message with tag 2: rank 0 sends 8 int32, rank 1 expects " +
                           std::string(other_type ? "8 float32" : "9 int32")),
                std::string::npos)
          << error;
      EXPECT_NE(error.find("LS-4013"), std::string::npos) << error;
    }
  }
}

TEST(Mailbox, AMessageThatNeverComesNamesItsSenderWhenTheDeadlinePasses) {
  const auto errors = run_ranks(2, [](Engine& engine, const Segment& segment) {
    Values values(8);
    if (segment.rank() == 1) {
      engine.wait(*receive(engine, 0, 7, values), 200ms);
    } else {
      while (!segment.aborted()) std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_NE(errors[1].find("receiving from rank 0 (tag 7): rank 0 has not sent it"),
            std::string::npos)
      << errors[1];
}

TEST(Mailbox, WhatNoRankWritesIsRefusedAndEndsTheGroup) {
  const auto errors = run_ranks(2, [](Engine& engine, const Segment& segment) {
    Values values(8);
    const auto transfer = receive(engine, 1 - segment.rank(), 7, values);
    if (segment.rank() == 0) segment.mailbox(0, 1).posted.value.store(std::uint64_t{1} << 40);
    engine.wait(*transfer, kDeadline);
  });
  EXPECT_NE(errors[1].find("LS-4015"), std::string::npos) << errors[1];
  EXPECT_NE(errors[1].find("written by rank 0"), std::string::npos) << errors[1];
  EXPECT_NE(errors[0].find("rank 1 failed: "), std::string::npos) << errors[0];
}

TEST(Mailbox, CollectivesGoOnBesideAReceiveThatWaits) {
  expect_no_errors(run_ranks(3, [](Engine& engine, const Segment& segment) {
    const int me = segment.rank();
    Values in(30000);
    std::shared_ptr<Transfer> waiting;
    if (me == 0) waiting = receive(engine, 2, 1, in);
    for (int i = 0; i < 20; ++i) {
      Values sums(i % 2 == 0 ? 4 : 40000, me + 1);
      Request request;
      request.kind = {Collective::all_reduce, ElementType::i32, Reduction::sum, 0, false};
      request.input = request.output = sums.data();
      request.count = sums.size();
      engine.wait(*engine.issue(request), kDeadline);
      EXPECT_EQ(sums.back(), 6);
    }
    Values out = message(2, 0, 1, in.size());
    if (me == 2) engine.wait(*send(engine, 0, 1, out), kDeadline);
    if (me == 0) engine.wait(*waiting, kDeadline);
    if (me == 0) {
      EXPECT_EQ(in, out);
    }
  }));
}

/// Every rank sends every other one the same numbers of messages, posts all in an order of its own,
/// and waits for them in another.
void exchange_at_random(Engine& engine, const Segment& segment, unsigned seed) {
  struct Message {
    bool sends;
    int peer;
    int tag;
    int number;
    std::size_t count;
  };
  const int me = segment.rank();
  std::mt19937 shared(seed);
  std::vector<Message> messages;
  for (int from = 0; from < segment.ranks(); ++from) {
    for (int to = 0; to < segment.ranks(); ++to) {
      if (from == to) continue;
      for (int number = 0; number < 6; ++number) {
        const int tag = static_cast<int>(shared() % 3);
        const std::size_t count = shared() % 2 == 0 ? shared() % 50 : shared() % 40000;
        if (from == me) messages.push_back({true, to, tag, number, count});
        if (to == me) messages.push_back({false, from, tag, number, count});
      }
    }
  }
  // Posting keeps the order within a peer and a direction, and mixes those.
  std::mt19937 own(seed * 31 + static_cast<unsigned>(me));
  std::vector<unsigned> priority(static_cast<std::size_t>(2 * segment.ranks()));
  for (auto& value : priority) value = own();
  std::stable_sort(messages.begin(), messages.end(), [&](const Message& a, const Message& b) {
    const auto key = [&](const Message& m) {
      return priority[static_cast<std::size_t>(2 * m.peer + (m.sends ? 1 : 0))] % 3;
    };
    return key(a) < key(b);
  });
  std::vector<Values> values;
  values.reserve(messages.size());
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (const Message& m : messages) {
    values.push_back(m.sends ? message(me, m.peer, m.number, m.count) : Values(m.count));
    transfers.push_back(m.sends ? send(engine, m.peer, m.tag, values.back())
                                : receive(engine, m.peer, m.tag, values.back()));
  }
  std::vector<std::size_t> order(messages.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), own);
  for (const std::size_t i : order) {
    engine.wait(*transfers[i], kDeadline);
    const Message& m = messages[i];
    if (m.sends) continue;
    EXPECT_EQ(values[i], message(m.peer, me, m.number, m.count)) << "seed " << seed;
  }
}

TEST(Mailbox, RandomExchangesPostedAndAwaitedInAnyOrderDeliverEveryMessage) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    expect_no_errors(run_ranks(ranks, [&](Engine& engine, const Segment& segment) {
      exchange_at_random(engine, segment, seed);
    }));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Completion, AnActionIsCalledOnceWhetherItComesBeforeOrAfterTheEnd) {
  std::atomic<int> calls{0};
  expect_no_errors(run_ranks(2, [&](Engine& engine, const Segment& segment) {
    for (int i = 0; i < 50; ++i) {
      Values values(i % 2 == 0 ? 4 : 300000, segment.rank());
      Request request;
      request.kind = {Collective::all_reduce, ElementType::i32, Reduction::sum, 0, false};
      request.input = request.output = values.data();
      request.count = values.size();
      const auto operation = engine.issue(request);
      if (i % 3 == 0) engine.wait(*operation, kDeadline);
      std::atomic<int> own{0};
      operation->when_done([&] {
        ++calls;
        ++own;
      });
      while (own == 0) std::this_thread::yield();  // without anybody waiting
      EXPECT_TRUE(operation->done());
      EXPECT_EQ(values.back(), 1);
    }
  }));
  EXPECT_EQ(calls, 100);
}

TEST(Completion, TwoThreadsOfARankMayWaitAtOnceForWhatEndsInAnyOrder) {
  expect_no_errors(run_ranks(2, [](Engine& engine, const Segment& segment) {
    Values in(8);
    Values out(8, 3);
    if (segment.rank() == 0) {
      const auto first = receive(engine, 1, 1, in);
      std::thread waits([&] { engine.wait(*first, kDeadline); });
      std::this_thread::sleep_for(5ms);
      engine.wait(*send(engine, 1, 2, out), kDeadline);  // only then does rank 1 answer
      waits.join();
      EXPECT_EQ(in.front(), 3);
    } else {
      engine.wait(*receive(engine, 0, 2, in), kDeadline);
      engine.wait(*send(engine, 0, 1, out), kDeadline);
    }
  }));
}

}  // namespace
}  // namespace lockstep::comm::shm
