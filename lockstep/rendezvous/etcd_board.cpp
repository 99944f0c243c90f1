#include "lockstep/rendezvous/etcd_board.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/error.h"
#include "lockstep/base/limits.h"
#include "lockstep/rendezvous/etcd_membership.h"
#include "lockstep/rendezvous/reach.h"

namespace lockstep::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kWatchAgain{10};  // after one that came to nothing

Fd new_bell() {
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) throw limit_fault("etcd cannot be watched", errno);
  return bell;
}

void ring(const Fd& bell) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell.get(), &one, sizeof one);
}

void quieten(const Fd& bell) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(bell.get(), &count, sizeof count);
}

std::string list_of(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) text += (text.empty() ? "" : ",") + endpoint.text();
  return text;
}

/// Why nothing listens at the first endpoint, or what was met instead of etcd.
std::string reason_of(const EtcdBoardOptions& options, const std::string& met) {
  try {
    const ReachTimes one_look{std::chrono::milliseconds(0), std::chrono::milliseconds(1500)};
    (void)reach(options.endpoints.front(), one_look, {}, -1);
    return met;
  } catch (const EnvironmentFault& fault) {
    return fault.problems().front().what;
  }
}

}  // namespace

struct EtcdBoard::Impl {
  explicit Impl(EtcdBoardOptions given);
  ~Impl();

  void run();
  bool turn();
  void watch_if_following();
  void rest(bool is_in_trouble);
  void read_watch();
  void in_trouble(const std::string& what);
  void tell(std::vector<BoardEvent> news);
  [[nodiscard]] EtcdWrites waiting_writes();
  void forget_written(const EtcdWrites& writes, const std::vector<BoardEvent>& news);

  EtcdBoardOptions options;
  Fd bell;   // readable while there are events
  Fd asked;  // readable while something was asked of the thread
  // The thread's:
  EtcdMembership membership;
  Fd watch;                      // wakes it early
  bool watch_is_open = false;    // etcd has agreed
  Clock::time_point watch_at{};  // not before
  Clock::time_point answered = Clock::now();
  bool has_answered = false;
  Clock::time_point tell_at = Clock::now() + kTellWaitingEvery;

  std::mutex mutex;
  bool stopping = false;
  EtcdWrites writes;  // not written yet
  int terms_told = 0;
  std::vector<BoardEvent> events;
  std::exception_ptr failure;
  std::thread thread;
};

EtcdBoard::Impl::Impl(EtcdBoardOptions given)
    : options(std::move(given)),
      bell(new_bell()),
      asked(new_bell()),
      membership(options.endpoints, options.prefix, options.agent, options.times.state_life) {
  const BlockedSignals blocked;  // the thread must not take signals meant for the launcher
  thread = std::thread([this] { run(); });
}

EtcdBoard::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  ring(asked);
  thread.join();
}

void EtcdBoard::Impl::run() {
  try {
    while (turn()) {
    }
    if (has_answered) membership.leave();
  } catch (const EtcdTrouble&) {  // the leases end by themselves
  } catch (...) {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
  }
  tell({});
}

/// False when it is time to go.
bool EtcdBoard::Impl::turn() {
  const EtcdWrites now = waiting_writes();
  std::vector<BoardEvent> news;
  std::string trouble;
  try {
    membership.take_turn(now, news);
    answered = Clock::now();
    has_answered = true;
    forget_written(now, news);
    watch_if_following();
  } catch (const EtcdTrouble& error) {
    membership.judge_silence(news);
    trouble = error.what();
  }
  if (!news.empty()) tell(std::move(news));
  if (!trouble.empty()) in_trouble(trouble);
  rest(!trouble.empty());
  const std::lock_guard lock(mutex);
  return !stopping;
}

/// A leader looks at all records often; the others need only know that the leader or the state is
/// another one. Where no watch can be had they look often, too.
void EtcdBoard::Impl::watch_if_following() {
  if (membership.leads()) watch.reset();
  if (membership.leads() || watch || Clock::now() < watch_at) return;
  watch_at = Clock::now() + kWatchAgain;
  watch_is_open = false;
  try {
    watch = membership.watch();
  } catch (const EtcdTrouble&) {  // the next turn shows what it is
  }
}

/// Until something is asked for or told, or it is time to look.
void EtcdBoard::Impl::rest(bool is_in_trouble) {
  const bool is_watched = watch && !is_in_trouble;
  const bool is_told = is_watched && watch_is_open;
  const auto until = Clock::now() + (is_told ? options.times.watched : options.times.look);
  std::array<pollfd, 2> polls{
      {{asked.get(), POLLIN, 0}, {is_watched ? watch.get() : -1, POLLIN, 0}}};
  ::poll(polls.data(), polls.size(), poll_timeout_ms(until));
  quieten(asked);
  if (polls[1].revents != 0) read_watch();
}

/// What it says is a reason to look, no more.
void EtcdBoard::Impl::read_watch() {
  std::array<char, 4096> piece;
  ssize_t count = 0;
  while ((count = ::recv(watch.get(), piece.data(), piece.size(), 0)) > 0) {
    const std::string_view said(piece.data(), static_cast<std::size_t>(count));
    if (!watch_is_open && !said.starts_with("HTTP/1.1 200 ")) return watch.reset();
    watch_is_open = true;
  }
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) watch.reset();
}

EtcdWrites EtcdBoard::Impl::waiting_writes() {
  const std::lock_guard lock(mutex);
  return writes;
}

/// What was published meanwhile waits on.
void EtcdBoard::Impl::forget_written(const EtcdWrites& written,
                                     const std::vector<BoardEvent>& news) {
  const bool leads_no_more = std::any_of(news.begin(), news.end(), [](const BoardEvent& event) {
    return event.kind == BoardEvent::Kind::not_leading;
  });
  const std::lock_guard lock(mutex);
  if (written.record && writes.published == written.published) writes.record.reset();
  if (leads_no_more || (written.state && writes.state == written.state)) writes.state.reset();
}

void EtcdBoard::Impl::tell(std::vector<BoardEvent> news) {
  const std::lock_guard lock(mutex);
  for (BoardEvent& event : news) events.push_back(std::move(event));
  ring(bell);
}

void EtcdBoard::Impl::in_trouble(const std::string& what) {
  const auto now = Clock::now();
  if (now >= answered + (has_answered ? options.times.lost : options.times.first)) {
    const std::string kind = has_answered ? "etcd was lost: " : "no etcd answers: ";
    throw EnvironmentFault({"LS-3065", list_of(options.endpoints), kind + reason_of(options, what),
                            "see that etcd 3.4 or later runs there and serves its JSON gateway "
                            "without TLS (curl http://HOST:2379/version)"});
  }
  if (now < tell_at) return;
  tell_at = now + kTellWaitingEvery;
  if (options.on_waiting) options.on_waiting("etcd does not answer: " + what);
}

EtcdBoard::EtcdBoard(EtcdBoardOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

EtcdBoard::~EtcdBoard() = default;

void EtcdBoard::publish(const std::string& record) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->writes.record = record;
    impl_->writes.published = Clock::now();
  }
  ring(impl_->asked);
}

void EtcdBoard::announce(const std::string& state) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->writes.state = state;
    impl_->writes.term = impl_->terms_told;
  }
  ring(impl_->asked);
}

std::vector<BoardEvent> EtcdBoard::wait(Deadline until, int wake_fd) {
  while (true) {
    {
      const std::lock_guard lock(impl_->mutex);
      quieten(impl_->bell);
      for (const BoardEvent& event : impl_->events) {
        if (event.kind == BoardEvent::Kind::leading) ++impl_->terms_told;
      }
      if (!impl_->events.empty()) return std::exchange(impl_->events, {});
      if (impl_->failure) std::rethrow_exception(impl_->failure);
    }
    pollfd polls[] = {{impl_->bell.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
    ::poll(polls, 2, poll_timeout_ms(until));
    if (polls[0].revents == 0 && (polls[1].revents != 0 || Clock::now() >= until)) return {};
  }
}

}  // namespace lockstep::rendezvous
