// The shm backend as PyTorch's C++ sees it, beside upstream's Gloo on the same ranks.
#include "lockstep/comm/shm_backend.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/rank_places.h"
#include "lockstep/comm/store_adapter.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using c10d::Backend;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using Ops = c10d::ReduceOp;

c10::intrusive_ptr<c10d::Store> open_store() {
  return c10::make_intrusive<StoreAdapter>("127.0.0.1",
                                           std::atoi(std::getenv("LOCKSTEP_TEST_PORT")), 30s);
}

c10::intrusive_ptr<ShmBackend> join_shm(int rank, int size, const std::string& name,
                                        std::chrono::milliseconds timeout = 30s) {
  const auto store = open_store();
  c10d::PrefixStore prefixed("shm-backend", store);
  return c10::make_intrusive<ShmBackend>(prefixed, rank, size, timeout, name);
}

void on_ranks(int size, const std::function<void(ShmBackend&)>& body) {
  test::run_ranks(size, [&](Group& group) {
    const auto backend = join_shm(group.rank(), group.size(), "g");
    body(*backend);
  });
}

/// Integers, exact in every dtype whatever the order of adding.
at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype, std::int64_t salt = 0) {
  if (dtype == at::kBool) return (at::arange(count, at::kLong) + rank + salt).remainder(3) == 0;
  const auto values = (at::arange(count, at::kLong) * 7 + rank * 3 + salt).remainder(8) + 1;
  return values.to(dtype);
}

Ops op_of(Ops::RedOpType type) { return Ops(type); }

at::Tensor reduced(Backend& backend, const at::Tensor& tensor, Ops::RedOpType type) {
  Tensors tensors{tensor.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = op_of(type);
  backend.allreduce(tensors, options)->wait();
  return tensors.front();
}

TEST(ShmBackend, ReducesEveryDtypeByEveryReductionThatIsDefined) {
  on_ranks(3, [](ShmBackend& backend) {
    const auto combine = [](const Tensors& t, Ops::RedOpType type) {
      at::Tensor all = t[0];
      for (int r = 1; r < 3; ++r) {
        const at::Tensor& b = t[static_cast<std::size_t>(r)];
        if (type == Ops::SUM || type == Ops::AVG) all = all + b;
        if (type == Ops::PRODUCT) all = all * b;
        if (type == Ops::MIN) all = at::minimum(all, b);
        if (type == Ops::MAX) all = at::maximum(all, b);
        if (type == Ops::BAND) all = at::bitwise_and(all, b);
        if (type == Ops::BOR) all = at::bitwise_or(all, b);
        if (type == Ops::BXOR) all = at::bitwise_xor(all, b);
      }
      return type == Ops::AVG ? all / 3 : all;
    };
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kChar,
                             at::kByte, at::kShort, at::kInt, at::kLong}) {
      for (const auto type :
           {Ops::SUM, Ops::AVG, Ops::PRODUCT, Ops::MIN, Ops::MAX, Ops::BAND, Ops::BOR, Ops::BXOR}) {
        const bool is_bits = type >= Ops::BAND;
        const bool floats = at::isFloatingType(dtype);
        if (is_bits ? floats : type == Ops::AVG && !floats) {
          EXPECT_THROW(reduced(backend, values_of(0, 4, dtype), type), c10::ValueError);
          continue;
        }
        for (const std::int64_t count : {1, 1000, 70'000}) {
          Tensors terms;
          for (int r = 0; r < 3; ++r) {
            terms.push_back(values_of(r, count, dtype).to(floats ? at::kDouble : dtype));
          }
          const auto got = reduced(backend, values_of(backend.getRank(), count, dtype), type);
          // One rounding, from the exact value; bf16 and fp16 are divided in fp32.
          EXPECT_TRUE(at::allclose(got.to(at::kDouble),
                                   combine(terms, type).to(dtype).to(at::kDouble),
                                   type == Ops::AVG ? 1e-7 : 0, 0))
              << c10::toString(dtype) << " " << static_cast<int>(type) << " x " << count;
        }
      }
    }
    const auto any = reduced(backend, values_of(backend.getRank(), 100, at::kBool), Ops::SUM);
    EXPECT_TRUE(any.all().item<bool>());
  });
}

TEST(ShmBackend, ComplexNumbersAreSummedAndHaveNoMinimum) {
  on_ranks(2, [](ShmBackend& backend) {
    const auto real = values_of(backend.getRank(), 500, at::kFloat);
    const auto sum = reduced(backend, at::complex(real, -real), Ops::SUM);
    const auto expected = values_of(0, 500, at::kFloat) + values_of(1, 500, at::kFloat);
    EXPECT_TRUE(at::equal(sum, at::complex(expected, -expected)));
    EXPECT_TRUE(at::equal(reduced(backend, at::complex(real, real).conj(), Ops::SUM),
                          at::complex(expected, -expected)));
    EXPECT_THROW(reduced(backend, at::complex(real, real), Ops::MIN), c10::ValueError);
  });
}

TEST(ShmBackend, TensorsThatAreNotContiguousGetTheirResults) {
  on_ranks(2, [](ShmBackend& backend) {
    const auto mine = values_of(backend.getRank(), 6000, at::kFloat).view({60, 100});
    const auto sum =
        (values_of(0, 6000, at::kFloat) + values_of(1, 6000, at::kFloat)).view({60, 100});
    Tensors tensors{at::zeros({100, 60}).t()};
    tensors.front().copy_(mine);
    backend.allreduce(tensors, {})->wait();
    EXPECT_TRUE(at::equal(tensors.front(), sum));
    auto output = at::zeros({100, 120}).t();  // [120, 100]
    auto input = tensors.front();
    backend._allgather_base(output, input, {})->wait();
    EXPECT_TRUE(at::equal(output, at::cat({sum, sum})));
    {  // nobody keeps the work
      tensors.front().copy_(mine);
      backend.allreduce(tensors, {});
    }
    backend.barrier({})->wait();
    for (int i = 0; i < 1000 && !at::equal(tensors.front(), sum); ++i) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(at::equal(tensors.front(), sum));
  });
}

TEST(ShmBackend, ListsOfTensorsMayHaveDifferentSizes) {
  on_ranks(3, [](ShmBackend& backend) {
    const int me = backend.getRank();
    const auto part = [](int r, int salt = 0) {
      return values_of(r, 1 + 20'000 * r, at::kFloat, salt);
    };
    TensorLists gathered{{at::empty({1}), at::empty({20'001}), at::empty({40'001})}};
    Tensors inputs{part(me)};
    backend.allgather(gathered, inputs, {})->wait();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::equal(gathered[0][static_cast<std::size_t>(r)], part(r)));
    }
    Tensors outputs{at::empty({1 + 20'000 * me})};
    TensorLists terms{{part(0, me), part(1, me), part(2, me)}};
    backend.reduce_scatter(outputs, terms, {})->wait();
    EXPECT_TRUE(at::equal(outputs[0], part(me, 0) + part(me, 1) + part(me, 2)));
    Tensors sent;
    Tensors received;
    for (int r = 0; r < 3; ++r) {
      sent.push_back(values_of(me, 100 * r + me, at::kLong));
      received.push_back(at::empty({100 * me + r}, at::kLong));
    }
    backend.alltoall(received, sent, {})->wait();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(
          at::equal(received[static_cast<std::size_t>(r)], values_of(r, 100 * me + r, at::kLong)));
    }
  });
}

TEST(ShmBackend, CoalescedCallsGiveWhatSingleOnesGive) {
  on_ranks(2, [](ShmBackend& backend) {
    const int me = backend.getRank();
    Tensors tensors{values_of(me, 5, at::kFloat), values_of(me, 90'000, at::kLong)};
    backend.allreduce_coalesced(tensors, {})->wait();
    EXPECT_TRUE(at::equal(tensors[0], values_of(0, 5, at::kFloat) + values_of(1, 5, at::kFloat)));
    EXPECT_TRUE(
        at::equal(tensors[1], values_of(0, 90'000, at::kLong) + values_of(1, 90'000, at::kLong)));
    Tensors inputs{values_of(me, 4, at::kFloat), values_of(me, 30'000, at::kFloat)};
    Tensors outputs{at::empty({8}), at::empty({60'000})};
    backend.allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
    EXPECT_TRUE(at::equal(outputs[1].narrow(0, 30'000, 30'000), values_of(1, 30'000, at::kFloat)));
    const auto whole = outputs[1].clone();
    Tensors parts{at::empty({4}), at::empty({30'000})};
    backend.reduce_scatter_tensor_coalesced(parts, outputs, {})->wait();
    EXPECT_TRUE(at::equal(parts[1], whole.narrow(0, me * 30'000, 30'000) * 2));
  });
}

TEST(ShmBackend, TensorsThatItAllocatesAreReducedWhetherOrNotAllRanksPassTheirs) {
  on_ranks(2, [](ShmBackend& backend) {
    EXPECT_TRUE(backend.supportsTensorAlloc(-1));
    const at::Tensor small = backend.allocateTensor(10, at::kFloat);  // plain, on every rank
    EXPECT_EQ(small.numel(), 10);
    at::Tensor bucket = backend.allocateTensor(100'000, at::kFloat);
    for (int round = 0; round < 6; ++round) {
      const bool elsewhere = round % 3 == 1 && backend.getRank() == 0;
      Tensors tensors{elsewhere ? at::empty({70'000}) : bucket.narrow(0, round, 70'000)};
      tensors.front().copy_(values_of(backend.getRank(), 70'000, at::kFloat));
      backend.allreduce(tensors, c10d::AllreduceOptions())->wait();
      const auto sum = values_of(0, 70'000, at::kFloat) + values_of(1, 70'000, at::kFloat);
      EXPECT_TRUE(at::equal(tensors.front(), sum)) << round;
    }
  });
}

TEST(ShmBackend, AFutureHasTheResultWithoutAnybodyWaitingForTheWork) {
  on_ranks(2, [](ShmBackend& backend) {
    for (const std::int64_t count : {3, 400'000}) {
      Tensors tensors{at::full({count}, backend.getRank() + 1.0F)};
      auto future = backend.allreduce(tensors, {})->getFuture();
      const auto doubled = future->then(
          [](c10::ivalue::Future& done) {
            return c10::IValue(done.value().toTensorVector().front() * 2);
          },
          c10::TensorType::get());
      doubled->wait();
      EXPECT_TRUE(at::equal(doubled->value().toTensor(), at::full({count}, 6.0F)));
      TensorLists gathered{{at::empty({count}), at::empty({count})}};
      future = backend.allgather(gathered, tensors, {})->getFuture();
      future->wait();
      EXPECT_EQ(future->value().toList().size(), 1U);
    }
  });
}

TEST(ShmBackend, AFuturesCallbackMayEnterTheNextCollectiveAndWaitForIt) {
  on_ranks(2, [](ShmBackend& backend) {
    Tensors first{at::full({300'000}, 1.0F)};
    Tensors second{at::full({300'000}, 3.0F)};
    const auto future = backend.allreduce(first, {})->getFuture();
    const auto chained = future->then(
        [&](c10::ivalue::Future&) {
          backend.allreduce(second, {})->wait();
          return c10::IValue(second.front());
        },
        c10::TensorType::get());
    chained->wait();
    EXPECT_TRUE(at::equal(second.front(), at::full({300'000}, 6.0F)));
  });
}

TEST(ShmBackend, ManyWorksInFlightEndInAnyOrderOfWaiting) {
  on_ranks(3, [](ShmBackend& backend) {
    std::vector<Tensors> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 60; ++i) {
      tensors.push_back({at::full({i % 4 == 0 ? 60'000 : 9}, i + backend.getRank(), at::kLong)});
      works.push_back(backend.allreduce(tensors.back(), {}));
    }
    for (std::size_t i = works.size(); i-- > 0;) {
      works[i]->wait();
      EXPECT_TRUE(works[i]->isCompleted());
      EXPECT_TRUE(works[i]->isSuccess());
      EXPECT_EQ(works[i]->result().front().max().item<std::int64_t>(),
                3 * static_cast<std::int64_t>(i) + 3);
    }
    EXPECT_EQ(backend.getSequenceNumberForGroup(), 60U);
  });
}

TEST(ShmBackend, WhatNobodyKeepsIsReducedAllTheSameAndItsMemoryStaysTaken) {
  on_ranks(2, [](ShmBackend& backend) {
    constexpr std::int64_t kCount = std::int64_t{1} << 20;  // 4 MiB: in steps, by another thread
    for (int i = 0; i < 10; ++i) {
      {
        Tensors dropped{at::full({kCount}, 1.0F)};
        backend.allreduce(dropped, {});
      }
      const auto other = at::full({kCount}, 7.0F);  // in that memory, if it were free
      Tensors next{at::full({kCount}, backend.getRank() + static_cast<float>(i))};
      backend.allreduce(next, {})->wait();
      EXPECT_TRUE(at::equal(next.front(), at::full({kCount}, 2.0F * static_cast<float>(i) + 1)));
      EXPECT_TRUE(at::equal(other, at::full({kCount}, 7.0F)));
    }
    Tensors last{at::full({kCount}, 1.0F)};
    backend.allreduce(last, {});  // in flight at the end
  });
}

TEST(ShmBackend, SubGroupsOfOneStoreDoNotMeet) {
  test::run_ranks(4, [](Group& group) {
    const int half = group.rank() / 2;
    const auto all = join_shm(group.rank(), 4, "all");
    const auto pair = join_shm(group.rank() % 2, 2, half == 0 ? "low" : "high");
    Tensors tensors{at::full({70'000}, group.rank() + 1, at::kLong)};
    pair->allreduce(tensors, {})->wait();
    EXPECT_EQ(tensors.front().max().item<std::int64_t>(), half == 0 ? 3 : 7);
    all->allreduce(tensors, {})->wait();
    EXPECT_EQ(tensors.front().min().item<std::int64_t>(), 20);
    pair->shutdown();
    all->barrier({})->wait();
    const auto again = join_shm(group.rank() % 2, 2, half == 0 ? "low" : "high");
    again->barrier({})->wait();
  });
}

TEST(ShmBackend, MessagesGoBothWaysWhateverIsPostedFirst) {
  on_ranks(2, [](ShmBackend& backend) {
    const int me = backend.getRank();
    for (const std::int64_t count : {0, 5, 300'000}) {
      Tensors out{values_of(me, count, at::kFloat)};
      Tensors in{at::zeros({count})};
      const auto sending = backend.send(out, 1 - me, 3);
      const auto receiving = me == 0 ? backend.recv(in, 1, 3) : backend.recvAnysource(in, 3);
      (me == 0 ? sending : receiving)->wait();
      (me == 0 ? receiving : sending)->wait();
      EXPECT_TRUE(at::equal(in.front(), values_of(1 - me, count, at::kFloat)));
      EXPECT_EQ(receiving->sourceRank(), 1 - me);
    }
    Tensors strided{at::zeros({50, 40}).t()};
    Tensors whole{at::arange(2000, at::kFloat).view({40, 50})};
    if (me == 0) {
      backend.send(whole, 1, 0)->wait();
    } else {
      backend.recv(strided, 0, 0)->wait();
      EXPECT_TRUE(at::equal(strided.front(), whole.front()));
    }
    EXPECT_THROW(backend.send(whole, me, 0), c10::ValueError);
  });
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::DistBackendError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(ShmBackend, OtherDtypesSizesAndCollectivesAreErrorsOnEveryRankNamingBoth) {
  const auto expect_in = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  on_ranks(2, [&](ShmBackend& backend) {
    const bool first = backend.getRank() == 0;
    Tensors tensors{at::zeros({8}, first ? at::kFloat : at::kInt)};
    const auto text = error_of([&] { backend.allreduce(tensors, {})->wait(); });
    expect_in(text, "rank 0 entered all_reduce (sum) of 8 float32");
    expect_in(text, "rank 1 entered all_reduce (sum) of 8 int32");
    EXPECT_EQ(backend.getError(), c10d::ErrorType::REMOTE_ERROR);
  });
  on_ranks(2, [&](ShmBackend& backend) {
    Tensors tensors{at::zeros({backend.getRank() == 0 ? 8 : 9})};
    const auto text = error_of([&] {
      backend.getRank() == 0 ? backend.send(tensors, 1, 4)->wait()
                             : backend.recv(tensors, 0, 4)->wait();
    });
    expect_in(text, "message with tag 4: rank 0 sends 8 float32, rank 1 expects 9 float32");
  });
  on_ranks(2, [&](ShmBackend& backend) {
    auto input = at::zeros({10});
    auto output = at::zeros({10});
    std::vector<std::int64_t> splits{4, 6};  // rank 0 sends 6 to rank 1, which expects 4
    const auto text =
        error_of([&] { backend.alltoall_base(output, input, splits, splits, {})->wait(); });
    expect_in(text, "in all_to_all, rank ");
  });
}

TEST(ShmBackend, ATimeOutNamesTheRankThatDidNotComeAndFailsTheFutureToo) {
  on_ranks(2, [](ShmBackend& backend) {
    if (backend.getRank() == 1) {
      while (backend.getError() == c10d::ErrorType::SUCCESS) std::this_thread::sleep_for(1ms);
      return;
    }
    backend.setTimeout(300ms);
    Tensors tensors{at::zeros({100'000})};
    const auto work = backend.allreduce(tensors, {});
    const auto future = work->getFuture();
    future->wait();  // nobody waits for the work: the engine's thread keeps the deadline
    EXPECT_TRUE(future->hasError());
    const auto text = error_of([&] { work->wait(); });
    EXPECT_NE(text.find("rank 1 has not entered it"), std::string::npos) << text;
    EXPECT_NE(work->exception(), nullptr);
    EXPECT_FALSE(work->isSuccess());
  });
}

TEST(ShmBackend, AReceiveThatTimesOutIsToldFromTheFlightRecord) {
  on_ranks(2, [](ShmBackend& backend) {
    if (backend.getRank() == 0) {
      while (backend.getError() == c10d::ErrorType::SUCCESS) std::this_thread::sleep_for(1ms);
      return;
    }
    backend.setTimeout(300ms);
    Tensors tensors{at::zeros({8})};
    const auto text = error_of([&] { backend.recv(tensors, 0, 7)->wait(); });
    EXPECT_NE(text.find("recv from rank 0 (tag 7) (float32, 8 elements) failed (deadline 300 ms): "
                        "receiving from rank 0 (tag 7): rank 0 has not sent it"),
              std::string::npos)
        << text;
  });
}

TEST(ShmBackend, ARankThatNeverSaysWhereItRunsIsNamed) {
  test::run_ranks(1, [](Group&) {
    try {
      const ShmBackend backend(*open_store(), 0, 2, 300ms, "silent");
      ADD_FAILURE() << "joined alone";
    } catch (const PeerLost& lost) {
      const Problem& problem = lost.problems().front();
      EXPECT_EQ(problem.code, "LS-4005");
      EXPECT_EQ(problem.what, "rank 1 did not say on which host it is within 300 ms");
    }
  });
}

TEST(ShmBackend, RanksOnTwoHostsAreRefusedNamingBoth) {
  test::run_ranks(1, [](Group&) {
    const auto store = open_store();
    const std::string other = to_text(RankPlace{"another kernel", "far-host", "net", "10.0.0.9"});
    store->set("far/place/1", std::vector<std::uint8_t>(other.begin(), other.end()));
    try {
      const ShmBackend backend(*store, 0, 2, 5s, "far");
      ADD_FAILURE() << "two hosts were joined";
    } catch (const EnvironmentFault& fault) {
      const Problem& problem = fault.problems().front();
      EXPECT_EQ(problem.code, "LS-4014");
      EXPECT_NE(problem.what.find("rank 0 runs on host "), std::string::npos) << problem.what;
      EXPECT_NE(problem.what.find("rank 1 on host far-host"), std::string::npos) << problem.what;
    }
  });
}

Tensors random_all_to_all(Backend& backend, const at::Tensor& mine, unsigned seed) {
  const int me = backend.getRank();
  const int n = backend.getSize();
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  if (seed % 2 == 0) {
    auto input = at::cat(Tensors(static_cast<std::size_t>(n), mine));
    auto output = at::zeros_like(input);
    backend.alltoall_base(output, input, received, sent, {})->wait();
    return {output};
  }
  const auto rows = [&](int from, int to) {
    return (from * 13 + to * 5 + static_cast<int>(seed % 50)) % 70;
  };
  std::int64_t all_sent = 0;
  std::int64_t all_received = 0;
  for (int r = 0; r < n; ++r) {
    sent.push_back(rows(me, r));
    received.push_back(rows(r, me));
    all_sent += sent.back();
    all_received += received.back();
  }
  auto input = values_of(me, all_sent * 4, mine.scalar_type()).view({-1, 4});
  auto output = at::zeros({all_received, 4}, mine.scalar_type());
  backend.alltoall_base(output, input, received, sent, {})->wait();
  return {output};
}

/// One call with random arguments, the same for any backend; returns all that came out.
Tensors random_call(Backend& backend, unsigned seed) {
  std::mt19937 random(seed);
  const int me = backend.getRank();
  const int n = backend.getSize();
  const std::int64_t count = random() % 3 == 0 ? 1 + random() % 40'000 : 1 + random() % 60;
  const auto dtype = std::vector{at::kFloat, at::kDouble, at::kLong, at::kInt}[random() % 4];
  const int root = static_cast<int>(random() % static_cast<unsigned>(n));
  const auto op = op_of(std::vector{Ops::SUM, Ops::MIN, Ops::MAX}[random() % 3]);
  const auto mine = values_of(me, count, dtype, seed);
  const auto all = [&] {
    Tensors parts;
    for (int r = 0; r < n; ++r) parts.push_back(at::zeros({count}, dtype));
    return parts;
  };
  Tensors one{mine};
  switch (random() % 8) {
    case 0: {
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      backend.allreduce(one, options)->wait();
      return one;
    }
    case 1: {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      backend.broadcast(one, options)->wait();
      return one;
    }
    case 2: {
      c10d::ReduceOptions options;
      options.reduceOp = op;
      options.rootRank = root;
      backend.reduce(one, options)->wait();
      return me == root ? one : Tensors{};
    }
    case 3: {
      TensorLists gathered{all()};
      backend.allgather(gathered, one, {})->wait();
      return gathered.front();
    }
    case 4: {
      c10d::GatherOptions options;
      options.rootRank = root;
      TensorLists gathered;
      if (me == root) gathered.push_back(all());
      backend.gather(gathered, one, options)->wait();
      return me == root ? gathered.front() : Tensors{};
    }
    case 5: {
      c10d::ScatterOptions options;
      options.rootRank = root;
      TensorLists parts;
      if (me == root) {
        parts.emplace_back();
        for (int r = 0; r < n; ++r) parts.front().push_back(values_of(r, count, dtype, seed));
      }
      Tensors out{at::zeros({count}, dtype)};
      backend.scatter(out, parts, options)->wait();
      return out;
    }
    default:
      return random_all_to_all(backend, mine, seed);
  }
}

TEST(ShmBackend, TwoHundredRandomCallsGiveWhatGlooGives) {
  test::run_ranks(3, [](Group& group) {
    const auto shm = join_shm(group.rank(), group.size(), "g");
    GroupOptions options;
    options.rank = group.rank();
    options.size = group.size();
    options.deadline = 30s;
    const auto gloo = connect_gloo(open_store(), options, "reference", "127.0.0.1");
    for (unsigned seed = 1; seed <= 200; ++seed) {
      const Tensors got = random_call(*shm, seed);
      const Tensors expected = random_call(*gloo, seed);
      ASSERT_EQ(got.size(), expected.size()) << seed;
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(at::equal(got[i], expected[i])) << "call " << seed << ", tensor " << i;
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
