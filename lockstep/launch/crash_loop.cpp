#include "lockstep/launch/crash_loop.h"

namespace lockstep::launch {
namespace {

using rendezvous::RoundEnd;

constexpr int kMostAlike = 3;
constexpr int kFewRestarts = 3;
// Before that no program has trained anything; Python needs two or three to start.
constexpr double kFirstSeconds = 15;

bool has_failed_early(const RoundEnd& end) {
  return end.step < 0 && end.failure.seconds < kFirstSeconds;
}

/// Where Python names the exception; what stands before it may hold numbers of processes.
std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

bool are_alike(const RoundEnd& a, const RoundEnd& b) {
  if (a.step >= 0 || b.step >= 0) return a.step == b.step;
  return has_failed_early(a) && has_failed_early(b) && a.failure.exit_code == b.failure.exit_code &&
         a.failure.signal == b.failure.signal &&
         last_line(a.failure.text) == last_line(b.failure.text);
}

}  // namespace

std::string CrashLoop::add(const RoundEnd& end) {
  if (end.kind != RoundEnd::Kind::failed) {
    alike_ = 0;
    return "";
  }
  alike_ = alike_ > 0 && are_alike(last_, end) ? alike_ + 1 : 1;
  last_ = end;
  if (max_restarts_ <= kFewRestarts || alike_ < kMostAlike) return "";
  if (end.step < 0) {
    return "the ranks failed three times in a row within their first seconds, with the same words: "
           "starting them again does not help";
  }
  return "the ranks failed three times in a row behind step " + std::to_string(end.step) +
         ": starting them again does not help";
}

}  // namespace lockstep::launch
