#include "lockstep/rendezvous/note_limit.h"

#include <utility>

namespace lockstep::rendezvous {
namespace {

constexpr int kToldAtOnce = 5;
constexpr std::chrono::seconds kWindow{5};

}  // namespace

void NoteLimit::tell(const std::string& text) {
  tend();
  if (told_ == 0) window_end_ = Clock::now() + kWindow;
  if (told_ >= kToldAtOnce) {
    ++held_back_;
    return;
  }
  ++told_;
  if (on_note_) on_note_(text);
}

void NoteLimit::tend() {
  if (told_ == 0 || Clock::now() < window_end_) return;
  told_ = 0;
  const std::size_t count = std::exchange(held_back_, 0);
  if (count > 0 && on_note_) on_note_("and " + std::to_string(count) + " more like these");
}

}  // namespace lockstep::rendezvous
