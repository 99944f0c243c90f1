// Thousands of random sequences on ranks that are threads, against one thread that computes the
// same. make soak runs 10,000; LOCKSTEP_TEST_SEED and LOCKSTEP_TEST_SEQUENCES run any others.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/comm/shm/random_sequence_testing.h"
#include "lockstep/comm/shm/standard_layout.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm {
namespace {

using testing::below;
using testing::Random;
using testing::Sequence;
using testing::Side;
using testing::Step;

constexpr std::chrono::seconds kDeadline{60};
constexpr std::size_t kMostRanks = 6;
constexpr std::size_t kInFlight = 8;
// In a test run, for some seconds.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSequences = 50;
#else
constexpr unsigned kSequences = 500;
#endif

// --- drawing one ------------------------------------------------------------------------------

void draw_message(Step& step, std::size_t number, Random& random) {
  const std::size_t ranks = step.sides.size();
  step.is_message = true;
  step.from = static_cast<int>(below(random, ranks));
  step.to = static_cast<int>((static_cast<std::size_t>(step.from) + 1 + below(random, ranks - 1)) %
                             ranks);
  step.from_any = below(random, 4) == 0;
  // Whoever takes from any rank would take another's message of that tag.
  step.tag = static_cast<int>(step.from_any ? 100 + number : below(random, 3));
  step.count = testing::random_count(step.kind.type, 1, random);
}

void draw_collective(Step& step, Random& random) {
  const std::size_t ranks = step.sides.size();
  CollectiveKind& kind = step.kind;
  kind.collective = static_cast<Collective>(below(random, 9));
  step.count = testing::random_count(kind.type, ranks, random);
  step.in_place = below(random, 2) == 0;
  const Collective c = kind.collective;
  if (c <= Collective::reduce_scatter) {
    do {
      kind.reduction = static_cast<Reduction>(below(random, 8));
    } while (!is_defined(kind.reduction, kind.type));
  }
  if (c == Collective::reduce || c == Collective::broadcast || c == Collective::gather ||
      c == Collective::scatter) {
    kind.root = static_cast<std::uint32_t>(below(random, ranks));
  }
  if (c == Collective::barrier) step.count = 0;
  if (c != Collective::all_to_all || below(random, 2) == 0) return;
  kind.uneven = true;
  step.uneven.resize(ranks);
  for (auto& row : step.uneven) {
    for (std::size_t r = 0; r < ranks; ++r) {
      row.push_back(testing::random_count(kind.type, ranks, random));
    }
  }
}

Sequence draw_sequence(unsigned seed) {
  Random random(seed);
  Sequence sequence{.seed = seed, .small_pieces = below(random, 2) == 0};
  std::vector<int> all(1 + below(random, kMostRanks));
  std::iota(all.begin(), all.end(), 0);
  sequence.groups.push_back(all);
  if (all.size() > 2 && below(random, 4) == 0) {
    std::shuffle(all.begin(), all.end(), random);
    all.resize(2 + below(random, all.size() - 2));
    sequence.groups.push_back(all);
  }
  const std::size_t steps = 1 + below(random, 20);
  for (std::size_t i = 0; i < steps; ++i) {
    Step step;
    step.group = below(random, sequence.groups.size());
    step.sides.resize(sequence.groups[step.group].size());
    step.kind.type = static_cast<ElementType>(below(random, 10));
    if (step.sides.size() > 1 && below(random, 4) == 0) {
      draw_message(step, i, random);
    } else {
      draw_collective(step, random);
    }
    fill(step, random);
    sequence.steps.push_back(std::move(step));
  }
  return sequence;
}

// --- running it -------------------------------------------------------------------------------

/// One rank of one sequence.
class RankRun {
 public:
  RankRun(Sequence& sequence, const std::vector<std::unique_ptr<testing::ThreadMemory>>& memories,
          int rank)
      : sequence_(sequence), random_(sequence.seed * 64 + static_cast<unsigned>(rank)) {
    for (std::size_t g = 0; g < memories.size(); ++g) {
      const auto& members = sequence.groups[g];
      const auto at = std::find(members.begin(), members.end(), rank);
      const bool belongs = at != members.end();
      members_.push_back(belongs ? std::make_unique<Member>(memories[g]->bytes(),
                                                            static_cast<int>(at - members.begin()),
                                                            static_cast<int>(members.size()))
                                 : nullptr);
    }
  }

  void run() {
    for (Step& step : sequence_.steps) {
      if (members_[step.group] == nullptr) continue;
      issue(step);
      if (below(random_, 8) == 0) ::sched_yield();
      if (in_flight_.size() >= kInFlight || below(random_, 2) == 0) settle();
    }
    settle();
  }
  void abort(const std::string& why) {
    for (const auto& member : members_) {
      if (member) member->segment.abort(why);
    }
  }

 private:
  struct Member {
    Member(std::span<std::byte> memory, int rank, int ranks)
        : segment(memory, rank, ranks), engine(segment, {.crowded = true, .name = "test"}) {}
    Segment segment;
    Engine engine;
  };
  struct Flight {
    Step* step;
    std::shared_ptr<Operation> operation;
    std::shared_ptr<Transfer> transfer;
  };

  void issue(Step& step) {
    Member& member = *members_[step.group];
    const int me = member.segment.rank();
    Side& side = step.sides[static_cast<std::size_t>(me)];
    side.output.assign(side.expected.size(), std::byte{0xee});
    if (step.is_message) {
      if (me == step.from) in_flight_.push_back({&step, nullptr, transfer(step, true, side.input)});
      if (me == step.to) in_flight_.push_back({&step, nullptr, transfer(step, false, side.output)});
      return;
    }
    Request request;
    request.kind = step.kind;
    request.count = step.count;
    if (step.kind.uneven) {
      for (std::size_t r = 0; r < step.sides.size(); ++r) {
        request.send_counts.push_back(step.uneven[static_cast<std::size_t>(me)][r]);
        request.receive_counts.push_back(step.uneven[r][static_cast<std::size_t>(me)]);
      }
    }
    request.input = side.input.data();
    request.output = side.output.data();
    if (step.kind.collective <= Collective::reduce && step.in_place && !side.output.empty()) {
      side.output = side.input;
      request.input = side.output.data();
    }
    in_flight_.push_back({&step, member.engine.issue(std::move(request)), nullptr});
  }

  std::shared_ptr<Transfer> transfer(const Step& step, bool sends, testing::Bytes& data) {
    return members_[step.group]->engine.transfer(
        {.sends = sends,
         .peer = sends ? step.to : (step.from_any ? kAnyRank : step.from),
         .tag = step.tag,
         .type = step.kind.type,
         .data = data.data(),
         .bytes = data.size(),
         .owner = nullptr});
  }

  /// Awaits all that is in flight, in any order and in every way there is.
  void settle() {
    std::shuffle(in_flight_.begin(), in_flight_.end(), random_);
    for (const Flight& flight : in_flight_) {
      Engine& engine = members_[flight.step->group]->engine;
      Completion& completion = flight.operation ? static_cast<Completion&>(*flight.operation)
                                                : static_cast<Completion&>(*flight.transfer);
      const auto way = below(random_, 8);
      const auto limit = std::chrono::steady_clock::now() + kDeadline;
      while (way < 2 && !completion.done() && std::chrono::steady_clock::now() < limit) {
        if (way == 0) (void)engine.poll(completion);
        ::sched_yield();  // somebody else drives
      }
      if (flight.operation) engine.wait(*flight.operation, kDeadline);
      if (flight.transfer) engine.wait(*flight.transfer, kDeadline);
    }
    for (const Flight& flight : in_flight_) check(*flight.step);
    in_flight_.clear();
  }

  void check(const Step& step) const {
    const int me = members_[step.group]->segment.rank();
    const Side& side = step.sides[static_cast<std::size_t>(me)];
    if (side.output == side.expected) return;
    const auto differs =
        std::mismatch(side.output.begin(), side.output.end(), side.expected.begin()).first -
        side.output.begin();
    throw std::runtime_error(step.text() + ": rank " + std::to_string(me) +
                             " has another result from byte " + std::to_string(differs) + " of " +
                             std::to_string(side.output.size()));
  }

  Sequence& sequence_;
  Random random_;
  std::vector<std::unique_ptr<Member>> members_;  // by group; null = not of it
  std::vector<Flight> in_flight_;
};

/// What went wrong on any rank; empty = nothing.
std::string run(Sequence& sequence) {
  std::vector<std::unique_ptr<testing::ThreadMemory>> memories;
  for (const auto& members : sequence.groups) {
    const int ranks = static_cast<int>(members.size());
    memories.push_back(std::make_unique<testing::ThreadMemory>(
        sequence.small_pieces ? testing::small_layout(ranks) : standard_layout(ranks)));
  }
  std::vector<std::string> errors(sequence.groups.front().size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    threads.emplace_back([&, r] {
      RankRun rank(sequence, memories, static_cast<int>(r));
      try {
        rank.run();
      } catch (const std::exception& error) {
        errors[r] = "rank " + std::to_string(r) + ": " + error.what() + "\n";
        rank.abort(errors[r]);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return std::accumulate(errors.begin(), errors.end(), std::string());
}

unsigned number_from(const char* variable, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST(Sequences, GiveOnEveryRankWhatOneThreadComputes) {
  const unsigned first = number_from("LOCKSTEP_TEST_SEED", 1);
  const unsigned count = number_from("LOCKSTEP_TEST_SEQUENCES", kSequences);
  std::cout << count << " sequences from seed " << first << "\n";
  for (unsigned seed = first; seed != first + count; ++seed) {
    Sequence sequence = draw_sequence(seed);
    const std::string errors = run(sequence);
    ASSERT_EQ(errors, "") << "LOCKSTEP_TEST_SEED=" << seed
                          << " LOCKSTEP_TEST_SEQUENCES=1 runs this one alone";
  }
}

}  // namespace
}  // namespace lockstep::comm::shm
