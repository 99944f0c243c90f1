// The shm backend as PyTorch's C++ sees it: its collectives and messages.
#include "lockstep/comm/shm_backend.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shm_backends.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using c10d::Backend;
using test::join_shm;
using test::on_ranks;
using test::TensorLists;
using test::Tensors;
using test::values_of;
using Ops = c10d::ReduceOp;

at::Tensor reduced(Backend& backend, const at::Tensor& tensor, Ops::RedOpType type) {
  Tensors tensors{tensor.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = Ops(type);
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

}  // namespace
}  // namespace lockstep::comm
