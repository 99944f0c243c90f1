// What goes wrong in the shm backend: every rank gets an error that names both sides.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/rank_places.h"
#include "tests/support/shm_backends.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using test::on_ranks;
using test::open_store;
using test::Tensors;

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

}  // namespace
}  // namespace lockstep::comm
