// Works of the shm backend in flight: waited for, dropped, or seen through their futures.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/shm_backends.h"

namespace lockstep::comm {
namespace {

using test::on_ranks;
using test::TensorLists;
using test::Tensors;

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

}  // namespace
}  // namespace lockstep::comm
