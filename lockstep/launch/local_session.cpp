#include "lockstep/launch/local_session.h"

#include <poll.h>

#include <utility>

#include "lockstep/base/blocked_signals.h"

namespace lockstep::launch {

using rendezvous::Round;
using rendezvous::RoundEnd;
using rendezvous::Verdict;

namespace {

bool is_exit(const RoundEnd& end, Exit exit) {
  return end.failure.signal == 0 && end.failure.exit_code == static_cast<int>(exit);
}

}  // namespace

LocalSession::LocalSession(Settings settings)
    : settings_(std::move(settings)), crash_loop_(settings_.max_restarts) {}

std::variant<Round, Verdict> LocalSession::next(int stop_fd) {
  if (verdict_) return *verdict_;
  pollfd asked{stop_fd, POLLIN, 0};
  if (::poll(&asked, 1, 0) > 0) {
    return Verdict{Exit::failed, std::nullopt, {}, "stopped on request before the ranks started"};
  }
  store_.reset();  // the port may be the same
  {
    const BlockedSignals blocked;  // its thread must not take signals meant for the launcher
    store_ = std::make_unique<store::Server>(settings_.store_host, settings_.store_port);
  }
  Round round;
  round.run_id = settings_.run_id;
  round.generation = rounds_++;
  round.restart_count = restarts_;
  round.max_restarts = settings_.max_restarts;
  round.seats = {{settings_.agent, 0}};
  round.master_addr = settings_.store_host;
  round.master_port = store_->port();
  return round;
}

void LocalSession::report(const RoundEnd& end) {
  switch (end.kind) {
    case RoundEnd::Kind::succeeded:
      return end_job(Exit::ok, end, "");
    case RoundEnd::Kind::stopped_on_request:
    case RoundEnd::Kind::interrupted:
      return end_job(end.saved ? Exit::requeue : Exit::failed, end, "stopped on request");
    case RoundEnd::Kind::failed:
      break;
  }
  const std::string hopeless = crash_loop_.add(end);
  // A mistake in the configuration, or corrupt data, is still there the next time.
  if (settings_.ours && (is_exit(end, Exit::usage) || is_exit(end, Exit::bad_data))) {
    return end_job(Exit::failed, end, "");
  }
  if (restarts_ < settings_.max_restarts && hopeless.empty()) {
    ++restarts_;
    return;
  }
  end_job(Exit::failed, end, hopeless);
}

void LocalSession::end_job(Exit exit, const RoundEnd& end, std::string because) {
  verdict_ = Verdict{exit, std::nullopt, end.consequences, std::move(because)};
  if (end.kind == RoundEnd::Kind::failed) verdict_->first = end.failure;
}

}  // namespace lockstep::launch
