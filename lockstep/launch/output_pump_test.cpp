#include "lockstep/launch/output_pump.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::launch {
namespace {

TEST(OutputPump, HandsOverInOrder) {
  std::vector<std::string> seen;
  LocalJobOptions options;
  options.on_report = [&](const std::string& line) { seen.push_back("report " + line); };
  options.on_output = [&](const OutputLine& line) {
    seen.push_back(std::to_string(line.rank) + (line.is_stderr ? " err " : " out ") + line.text);
  };
  LostOutput lost;
  OutputPump pump(options, lost);
  pump.push_report("a");
  pump.push_output({1, true, "b"});
  pump.push_output({0, false, "c"});
  pump.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"report a", "1 err b", "0 out c"}));
}

TEST(OutputPump, AReaderThatHangsLosesTheOldestLinesOnly) {
  std::promise<void> is_paused;
  std::promise<void> terminal_goes_on;
  auto paused = terminal_goes_on.get_future();
  std::vector<std::string> seen;
  LocalJobOptions options;
  options.on_output = [&](const OutputLine& line) {
    if (paused.valid()) {
      is_paused.set_value();
      paused.get();
    }
    seen.push_back(line.text);
  };
  LostOutput lost;
  OutputPump pump(options, lost);
  const std::string text(1'000'000, 'x');
  pump.push_output({0, true, "first"});
  is_paused.get_future().wait();
  for (int i = 0; i < 30; ++i) pump.push_output({0, true, std::to_string(i) + text});
  terminal_goes_on.set_value();
  pump.finish();
  EXPECT_LT(seen.size(), 15U);
  EXPECT_TRUE(seen.back().starts_with("29x")) << "the newest line was lost";
  const auto is_notice = [](const std::string& line) {
    return line.find("lines dropped") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), is_notice), 1);
}

TEST(OutputPump, WhatACallbackThrowsIsSeenAndRethrown) {
  LocalJobOptions options;
  options.on_report = [](const std::string&) { throw std::runtime_error("not a report"); };
  LostOutput lost;
  OutputPump pump(options, lost);
  pump.push_report("x");
  pump.push_report("y");
  pollfd ready{pump.failure_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 10'000), 1);
  EXPECT_THROW(pump.finish(), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::launch
