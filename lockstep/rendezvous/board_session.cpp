#include "lockstep/rendezvous/board_session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>

#include "lockstep/base/limits.h"

namespace lockstep::rendezvous {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds_of(Deadline time) { return Seconds(time.time_since_epoch()).count(); }

double now_s() { return seconds_of(std::chrono::steady_clock::now()); }

Deadline deadline_of(double time_s) {
  constexpr double kFarS = 1e9;
  if (time_s > kFarS) return Deadline::max();
  return Deadline(std::chrono::ceil<Deadline::duration>(Seconds(time_s)));
}

Fd new_event() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw limit_fault("no event can be made", errno);
  return event;
}

void ring(const Fd& event) {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

void quieten(const Fd& event) {
  std::uint64_t count = 0;
  (void)!::read(event.get(), &count, sizeof count);
}

/// \throws EnvironmentFault (LS-3021)
std::shared_ptr<const JobState> state_of(const BoardEvent& event) {
  try {
    return std::make_shared<const JobState>(state_from(event.bytes));
  } catch (const BadData& error) {
    throw EnvironmentFault(error.problems().front());
  }
}

/// Signals are the launcher's own thread's.
std::thread start_without_signals(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

BoardSession::BoardSession(std::unique_ptr<Board> board, Agent agent, const NodeSettings& settings,
                           OnSessionNote on_note)
    : board_(std::move(board)),
      node_(std::move(agent), settings, now_s()),
      on_note_(std::move(on_note)),
      wake_(new_event()),
      news_(new_event()),
      interrupt_(new_event()),
      fence_at_s_(std::numeric_limits<double>::infinity()) {
  thread_ = start_without_signals([this] { run(); });
}

BoardSession::~BoardSession() {
  is_over_.store(true);
  ring(wake_);
  thread_.join();
}

std::variant<Round, Verdict> BoardSession::next(int stop_fd) {
  bool has_asked = false;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (round_ && seconds_of(fence_at()) > now_s()) {
        return *std::exchange(round_, std::nullopt);
      }
      // This process was stopped between the state that gave the round and now.
      if (std::exchange(round_, std::nullopt)) {
        asked_.emplace_back(RanksEnded{{RoundEnd::Kind::interrupted, {}, {}, false, -1}});
        ring(wake_);
      }
      if (error_) std::rethrow_exception(error_);
      if (finish_ && finish_->refusal) {
        if (finish_->verdict.exit == Exit::usage) throw UsageError({*finish_->refusal});
        throw EnvironmentFault(*finish_->refusal);
      }
      if (finish_) return finish_->verdict;
    }
    std::array<pollfd, 2> polls{{{news_.get(), POLLIN, 0}, {has_asked ? -1 : stop_fd, POLLIN, 0}}};
    (void)::poll(polls.data(), polls.size(), -1);
    if (polls[0].revents != 0) quieten(news_);
    if (polls[1].revents != 0) {
      has_asked = true;
      leaving();
    }
  }
}

std::string BoardSession::interrupt_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

Deadline BoardSession::fence_at() const { return deadline_of(fence_at_s_.load()); }

void BoardSession::leaving() { ask(StopAsked{}); }

void BoardSession::failing(const Failure& failure) { ask(RankFailing{failure}); }

void BoardSession::report(const RoundEnd& end) {
  quieten(interrupt_);
  is_fenced_.store(false);
  ask(RanksEnded{end});
}

void BoardSession::ask(NodeInput input) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(input));
  }
  ring(wake_);
}

std::vector<NodeInput> BoardSession::take_asked() {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

void BoardSession::run() {
  try {
    converse();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  if (error_) interrupt(true, "the connection to the other hosts has ended");
  board_.reset();
  ring(news_);
}

void BoardSession::converse() {
  step(TimePassed{});
  while (!node_.is_finished() && !is_over_.load()) {
    const std::vector<BoardEvent> events =
        board_->wait(deadline_of(node_.wake_at_s()), wake_.get());
    quieten(wake_);
    for (const BoardEvent& event : events) take(event);
    for (const NodeInput& input : take_asked()) step(input);
    step(TimePassed{});
  }
}

void BoardSession::take(const BoardEvent& event) {
  switch (event.kind) {
    case BoardEvent::Kind::record:
      try {
        return step(RecordCame{std::make_shared<const Record>(record_from(event.bytes))});
      } catch (const BadData& error) {
        return step(RecordUnreadable{event.agent, error.problems().front().what});
      }
    case BoardEvent::Kind::gone:
      return step(AgentGone{event.agent, event.proven});
    case BoardEvent::Kind::listed:
      return step(AllListed{});
    case BoardEvent::Kind::state:
      return step(StateCame{state_of(event)});
    case BoardEvent::Kind::leading:
      return step(Leading{event.bytes.empty() ? nullptr : state_of(event), seconds_of(event.at)});
    case BoardEvent::Kind::not_leading:
      return step(NotLeading{});
    case BoardEvent::Kind::heard:
      return step(Heard{seconds_of(event.at)});
  }
}

void BoardSession::step(const NodeInput& input) {
  const std::vector<NodeOutput> outputs = node_.step(now_s(), input);
  fence_at_s_.store(node_.fence_at_s());
  for (const NodeOutput& output : outputs) {
    std::visit([this](const auto& wanted) { act(wanted); }, output);
  }
}

void BoardSession::act(const Publish& publish) { board_->publish(to_bytes(*publish.record)); }

void BoardSession::act(const Announce& announce) {
  board_->announce(to_bytes(*announce.state));
  if (announce.state->phase == JobState::Phase::ended) board_->conclude();
}

void BoardSession::act(const StartRanks& start) {
  {
    const std::lock_guard lock(mutex_);
    round_ = start.round;
  }
  quieten(interrupt_);  // what came too late for the ranks before
  is_fenced_.store(false);
  ring(news_);
}

void BoardSession::act(const StopRanks& stop) {
  may_save_.store(stop.may_save);
  interrupt(stop.at_once, stop.because);
}

/// Of a round that was not handed out no rank runs.
void BoardSession::interrupt(bool at_once, const std::string& because) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(round_, std::nullopt)) {
    asked_.emplace_back(RanksEnded{{RoundEnd::Kind::interrupted, {}, {}, false, -1}});
    ring(wake_);
    return;
  }
  reason_ = because;
  if (at_once) is_fenced_.store(true);
  ring(interrupt_);
}

void BoardSession::act(const Finish& finish) {
  const std::lock_guard lock(mutex_);
  finish_ = finish;
}

void BoardSession::act(const Note& note) {
  if (on_note_) on_note_(note.text);
}

}  // namespace lockstep::rendezvous
