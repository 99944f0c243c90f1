// Hands lines from the ranks to callbacks that may block (a paused terminal), without ranks or the
// watch over them waiting.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/fd.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/launch/lost_output.h"

namespace lockstep::launch {

class OutputPump {
 public:
  /// \param options its callbacks are called on one thread, one at a time. \param lost takes what
  /// is printed where there is no callback.
  OutputPump(const LocalJobOptions& options, LostOutput& lost);
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;
  ~OutputPump();

  void push_report(std::string line) { push({true, {0, false, std::move(line)}}); }
  void push_output(OutputLine line) { push({false, std::move(line)}); }

  /// Readable when a callback has thrown.
  [[nodiscard]] int failure_fd() const { return failure_.get(); }
  /// Waits until every line is handed over. Rethrows what a callback threw.
  void finish();

 private:
  struct Item {
    bool is_report = false;
    OutputLine line;
  };
  void push(Item item);
  void run();
  void hand_over(const Item& item) const;

  const LocalJobOptions& options_;
  LostOutput& lost_;
  Fd failure_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  bool ending_ = false;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace lockstep::launch
