// A library that does as it is told stands for one that blocks.
#include "lockstep/comm/call_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Opens only once open_gate is open; abort() opens all gates.
class ObedientLibrary : public CallLibrary {
 public:
  void open() override {
    if (!open_error.empty()) throw std::runtime_error(open_error);
    await(open_gate);
  }
  void close() override { closed.store(true); }
  void abort() override {
    aborts.fetch_add(1);
    set(open_gate);
    set(launch_gate);
    set(end_gate);
  }

  /// Until the gate is open.
  void await(const bool& gate) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return gate; });
  }
  void set(bool& gate) {
    const std::lock_guard lock(mutex);
    gate = true;
    changed.notify_all();
  }
  [[nodiscard]] bool is_set(const bool& gate) {
    const std::lock_guard lock(mutex);
    return gate;
  }

  std::string open_error;
  std::atomic<bool> closed{false};
  std::atomic<int> aborts{0};
  bool open_gate = true;
  bool launch_gate = true;
  bool end_gate = true;
  std::vector<int> launched;  // the thread's, read once it has ended
  std::mutex mutex;
  std::condition_variable changed;
};

class ObedientCall : public Call {
 public:
  ObedientCall(std::shared_ptr<ObedientLibrary> library, int number)
      : library_(std::move(library)), number_(number) {
    on_end([this](bool ok) { end_.set_value(ok); });
  }
  /// Whether it ended well.
  [[nodiscard]] bool ends_well() {
    auto end = end_.get_future();
    if (end.wait_for(seconds(30)) != std::future_status::ready) {
      ADD_FAILURE() << "call " << number_ << " does not end";
      return false;
    }
    return end.get();
  }

  bool launch_fails = false;

 private:
  void launch() override {
    if (launch_fails) throw std::runtime_error("no such collective");
    library_->await(library_->launch_gate);
    library_->launched.push_back(number_);
  }
  [[nodiscard]] bool is_over() override { return library_->is_set(library_->end_gate); }

  std::shared_ptr<ObedientLibrary> library_;
  const int number_;
  std::promise<bool> end_;
};

class CallThreads : public testing::Test {
 protected:
  std::shared_ptr<ObedientCall> issue(CallThread& calls, int number) {
    auto call = std::make_shared<ObedientCall>(library_, number);
    calls.issue(call);
    return call;
  }

  std::shared_ptr<ObedientLibrary> library_ = std::make_shared<ObedientLibrary>();
};

TEST_F(CallThreads, IssueInOrderAndTellWhenACallIsOver) {
  library_->end_gate = false;
  CallThread calls(library_);
  calls.start();
  ASSERT_TRUE(calls.opened(seconds(30)));
  std::vector<std::shared_ptr<ObedientCall>> issued;
  for (int i = 0; i < 8; ++i) issued.push_back(issue(calls, i));
  library_->set(library_->end_gate);
  for (const auto& call : issued) EXPECT_TRUE(call->ends_well());
  calls.close(seconds(30));
  EXPECT_EQ(library_->launched, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(library_->closed.load());
  EXPECT_EQ(library_->aborts.load(), 0);
}

TEST_F(CallThreads, ACallThatCannotBeLaunchedEndsWithItsErrorAndTheNextOneGoesOn) {
  CallThread calls(library_);
  calls.start();
  auto bad = std::make_shared<ObedientCall>(library_, 0);
  bad->launch_fails = true;
  calls.issue(bad);
  EXPECT_FALSE(bad->ends_well());
  EXPECT_THROW(bad->rethrow(), std::runtime_error);
  EXPECT_TRUE(issue(calls, 1)->ends_well());
}

TEST_F(CallThreads, AbortFreesALaunchThatBlocksAndEndsAllCallsBadly) {
  library_->launch_gate = false;
  CallThread calls(library_);
  calls.start();
  const auto first = issue(calls, 0);
  const auto second = issue(calls, 1);
  calls.abort();
  EXPECT_FALSE(first->ends_well()) << "a result that an abort may have cut off";
  EXPECT_FALSE(second->ends_well());
  EXPECT_FALSE(issue(calls, 2)->ends_well()) << "issued to a library that is gone";
  calls.abort();
  calls.close(seconds(30));
  EXPECT_TRUE(test::eventually([&] { return library_->aborts.load() == 1; }));
  EXPECT_FALSE(library_->closed.load());
}

TEST_F(CallThreads, CloseLetsWhatIsInFlightEnd) {
  library_->end_gate = false;
  CallThread calls(library_);
  calls.start();
  const auto call = issue(calls, 0);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    library_->set(library_->end_gate);
  });
  calls.close(seconds(30));
  later.join();
  EXPECT_TRUE(call->ends_well());
  EXPECT_TRUE(library_->closed.load());
  calls.abort();
  EXPECT_EQ(library_->aborts.load(), 0) << "it has been closed";
}

TEST_F(CallThreads, CloseAbortsWhatDoesNotEnd) {
  library_->end_gate = false;
  CallThread calls(library_);
  calls.start();
  const auto call = issue(calls, 0);
  calls.close(milliseconds(100));
  EXPECT_EQ(library_->aborts.load(), 1);
  EXPECT_FALSE(call->ends_well());
}

TEST_F(CallThreads, ALibraryThatNeverOpensHoldsNobodyUp) {
  library_->open_gate = false;
  CallThread calls(library_);
  calls.start();
  EXPECT_FALSE(calls.opened(milliseconds(20)));
  const auto call = issue(calls, 0);
  calls.close(milliseconds(20));
  EXPECT_FALSE(call->ends_well());
}

TEST_F(CallThreads, OneThatNeverStartedTakesNoCallsAndClosesAtOnce) {
  CallThread calls(library_);
  EXPECT_FALSE(issue(calls, 0)->ends_well());
  calls.abort();
  calls.close(seconds(30));
  EXPECT_EQ(library_->aborts.load(), 0);
}

TEST_F(CallThreads, WhatOpeningThrowsIsThrownToWhoWaitsForIt) {
  library_->open_error = "no such device";
  CallThread calls(library_);
  calls.start();
  EXPECT_THROW((void)calls.opened(seconds(30)), std::runtime_error);
  EXPECT_FALSE(issue(calls, 0)->ends_well());
}

}  // namespace
}  // namespace lockstep::comm
