#include "lockstep/rendezvous/static_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/limits.h"
#include "lockstep/rendezvous/round_failures.h"

namespace lockstep::rendezvous {
namespace {

void ring(const Fd& bell) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell.get(), &one, sizeof one);
}

Fd new_bell() {
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) throw limit_fault("other hosts cannot be watched", errno);
  return bell;
}

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}

}  // namespace

StaticWatch::StaticWatch(StaticWatchSettings settings)
    : settings_(std::move(settings)), told_(new_bell()), stop_(new_bell()) {
  for (std::size_t node = 0; node < settings_.agents.size(); ++node) {
    const int number = static_cast<int>(node);
    if (settings_.node != 0 || number == 0 || !settings_.agents[node]) continue;
    watched_.push_back(number);
    lives_[number] = {"", Clock::now()};
  }
  const BlockedSignals blocked;  // the thread must not take signals meant for the launcher
  thread_ = std::thread([this] { run(); });
}

StaticWatch::~StaticWatch() {
  ring(stop_);
  thread_.join();
}

void StaticWatch::begin_round(int restart) {
  const std::lock_guard lock(mutex_);
  restart_ = restart;
  if (store_lost_) return;
  cause_.reset();
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(told_.get(), &count, sizeof count);
}

std::optional<StaticWatch::Cause> StaticWatch::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void StaticWatch::tell(Cause cause, int restart) {
  const std::lock_guard lock(mutex_);
  if (cause_ || (restart != restart_ && !cause.store_lost)) return;
  store_lost_ = cause.store_lost;
  cause_ = std::move(cause);
  ring(told_);
}

void StaticWatch::run() {
  try {
    StaticStore store(settings_.endpoint, settings_.run_id, settings_.answer_limit);
    pollfd stop{stop_.get(), POLLIN, 0};
    do {
      look(store);
    } while (::poll(&stop, 1, static_cast<int>(settings_.period.count())) <= 0);
  } catch (const Error& error) {
    Cause cause;
    cause.store_lost = true;
    cause.because = "the store of node 0 at " + settings_.endpoint.text() +
                    " was lost: " + error.problems().front().what;
    tell(std::move(cause), 0);
  }
}

void StaticWatch::look(StaticStore& store) {
  int restart = 0;
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return store.beat(settings_.node);
    restart = restart_;
  }
  store.beat(settings_.node);
  const StaticStore::News news = store.news(restart, watched_);
  if (news.failed && news.failed->agent.node_rank != settings_.node) {
    const auto& failures = news.failed->ranks.failures;
    tell({news.failed, false, false,
          failures.empty() ? name_of(news.failed->agent) + " failed" : text_of(failures.front())},
         restart);
  } else if (news.lost) {
    tell({{},
          false,
          false,
          name_of(news.lost->agent) + " was lost: its launcher gave no sign of life for " +
              seconds_text(settings_.lost)},
         restart);
  } else if (news.leaving && news.leaving->agent.node_rank != settings_.node) {
    tell({{}, true, false, name_of(news.leaving->agent) + " was asked to stop"}, restart);
  } else {
    judge_lives(store, restart, news);
  }
}

void StaticWatch::judge_lives(StaticStore& store, int restart, const StaticStore::News& news) {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Life& life = lives_[watched_[i]];
    if (news.beats[i] != life.beat) {
      life = {news.beats[i], now};
    } else if (now >= life.seen + settings_.lost) {
      Record record;
      record.agent = *settings_.agents[static_cast<std::size_t>(watched_[i])];
      store.tell_lost(restart, record);
      life.seen = now;
    }
  }
}

}  // namespace lockstep::rendezvous
