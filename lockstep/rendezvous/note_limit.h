// Notes for people that a flood must not turn into a flood of lines.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace lockstep::rendezvous {

using OnNote = std::function<void(const std::string& text)>;

/// Passes the first few notes of every five seconds on, and counts the others.
class NoteLimit {
 public:
  explicit NoteLimit(OnNote on_note) : on_note_(std::move(on_note)) {}

  void tell(const std::string& text);
  /// Tells the count when its time has come.
  void tend();

 private:
  using Clock = std::chrono::steady_clock;

  OnNote on_note_;
  Clock::time_point window_end_{};
  int told_ = 0;
  std::size_t held_back_ = 0;
};

}  // namespace lockstep::rendezvous
