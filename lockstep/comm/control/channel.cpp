#include "lockstep/comm/control/channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "lockstep/base/limits.h"
#include "lockstep/comm/records/flight_words.h"
#include "lockstep/comm/records/process_state.h"
#include "lockstep/comm/shm/fingerprint.h"

namespace lockstep::comm::control {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kReadBytes = 16 * 1024;
// While nobody needs words, most collectives end within it.
constexpr milliseconds kInSilence{5};
// How often who waits for data looks for word of a disagreement.
constexpr milliseconds kListen{10};
// A waiter and the thread read the same sockets: what one waits for the other may have taken.
constexpr milliseconds kAwaitWords{2};
// After a rank is lost, for data of what all ranks had entered before.
constexpr milliseconds kAfterglow{200};

}  // namespace

Channel::Channel(int rank, std::vector<Fd> peers, std::vector<Card> cards, Limits limits,
                 OnEnd on_end)
    : rank_(rank),
      cards_(std::move(cards)),
      limits_(limits),
      on_end_(std::move(on_end)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      last_look_(Clock::now()),
      trust_from_(last_look_) {
  if (!wake_) throw limit_fault("the control connections cannot be watched", errno);
  for (std::size_t r = 0; r < peers.size(); ++r) {
    if (static_cast<int>(r) == rank) continue;
    Peer& peer = peers_.emplace_back(
        Peer{static_cast<int>(r), std::move(peers[r]), Knocks(cards_[r].host, cards_[r].port)});
    peer.heard = peer.told = last_look_;
  }
  thread_ = std::thread([this] { run(); });
}

Channel::~Channel() {
  leave();
  close();
}

/// Nobody is done with a collective before those in flight before it, or its own data, have ended
/// somewhere: until then also words that are needed can wait for others to share a system call
/// with.
void Channel::enter(const shm::Fingerprint& fingerprint, std::string_view site, Proof proof) {
  const std::lock_guard lock(mutex_);
  const bool is_alone = moving_.fetch_add(1) == 0;
  const bool is_needed = proof == Proof::words;
  announce(fingerprint, site, is_needed && is_alone);
  if (is_needed && !is_alone) awaited_words_.store(true);
}

void Channel::declare(const shm::Fingerprint& fingerprint, std::string_view site) {
  const std::lock_guard lock(mutex_);
  announce(fingerprint, site, false);
}

void Channel::announce(const shm::Fingerprint& fingerprint, std::string_view site, bool at_once) {
  Frame frame{Word::entered,       false,       0,
              entered_.load() + 1, fingerprint, std::string(site.substr(0, shm::kSiteBytes - 1))};
  own_.push_back({fingerprint, frame.text});
  entered_.store(frame.sequence);
  for (Peer& peer : peers_) {
    if (!peer.gone) append(peer.unsent, frame);
    if (at_once) send(peer);
    if (!peer.entries.empty()) compare(peer);
  }
  if (!at_once) held_back_.store(true);
  update_agreed();
}

void Channel::send_held_back() {
  if (!held_back_.exchange(false)) return;
  awaited_words_.store(false);
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.unsent.empty()) continue;
    peer.told = Clock::now();
    send(peer);
  }
}

void Channel::data_ended(Transfer& transfer, bool ok) {
  moving_.fetch_sub(1);
  if (!ok) data_failed_.store(true);
  if (awaited_words_.load()) send_held_back();
  {
    const std::lock_guard lock(news_mutex_);
    transfer.state.store(ok ? DataState::there : DataState::failed);
    // With many in flight most ends are of collectives that nobody waits for yet.
    const bool by_one = waiters_ == 1 && awaited_ != nullptr;
    if (waiters_ == 0 || (by_one && awaited_ != &transfer)) return;
  }
  news_.notify_all();
}

bool Channel::is_done(std::uint64_t sequence, const Transfer& transfer) const {
  return transfer.state.load() == DataState::there &&
         (transfer.proof == Proof::data || agreed_.load() >= sequence);
}

Outcome Channel::wait(std::uint64_t sequence, const Transfer& transfer, milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  if (transfer.proof == Proof::data) await_data(transfer, std::min(deadline, kInSilence));
  while (!poll(sequence, transfer)) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left <= milliseconds(0)) return Outcome::timed_out;
    if (transfer.state.load() == DataState::there) {
      await_words(sequence, std::min(left, kAwaitWords));
    } else {
      await_data(transfer, std::min(left, kListen));
    }
  }
  if (over_.load() && !end_.disagreement) salvage(sequence, transfer);
  if (is_done(sequence, transfer)) return Outcome::done;
  return over_.load() ? Outcome::over : Outcome::data_failed;
}

bool Channel::poll(std::uint64_t sequence, const Transfer& transfer) {
  if (is_done(sequence, transfer)) return true;
  send_held_back();
  if (!over_.load()) listen(sequence);
  return over_.load() || transfer.state.load() == DataState::failed || is_done(sequence, transfer);
}

/// To the words of those who have not entered it, as far as is known.
void Channel::listen(std::uint64_t sequence) {
  if (agreed_.load() >= sequence) return;
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.compared < sequence) read(peer);
  }
  update_agreed();
  judge();
}

void Channel::await_data(const Transfer& transfer, milliseconds limit) {
  std::unique_lock lock(news_mutex_);
  ++waiters_;
  awaited_ = &transfer;
  news_.wait_for(lock, limit,
                 [&] { return over_.load() || transfer.state.load() != DataState::moving; });
  if (--waiters_ > 0) awaited_ = nullptr;
}

/// A rank that left or was lost may have entered this collective before, and so has everybody: then
/// it can still end well here, as it did elsewhere. Others may never say that they entered it: they
/// wait for its data too, and who ended the group had no more words to give away.
void Channel::salvage(std::uint64_t sequence, const Transfer& transfer) {
  const auto until = ended_at_ + kAfterglow;
  while (!is_done(sequence, transfer) && transfer.state.load() != DataState::failed) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left <= milliseconds(0) || !may_end_well(sequence)) return;
    if (transfer.state.load() == DataState::there) {
      await_words(sequence, std::min(left, kAwaitWords));
      continue;
    }
    std::unique_lock lock(news_mutex_);
    ++waiters_;
    awaited_ = nullptr;
    news_.wait_for(lock, std::min(left, kListen),
                   [&] { return transfer.state.load() != DataState::moving; });
    --waiters_;
  }
}

/// Unless a rank has gone that had not entered it.
bool Channel::may_end_well(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) read(peer);
  update_agreed();
  return std::none_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return (peer.left || peer.gone) && peer.announced < sequence;
  });
}

/// Sleeps until a peer that has not entered yet says something.
void Channel::await_words(std::uint64_t sequence, milliseconds limit) {
  std::vector<pollfd> awaited;
  {
    const std::lock_guard lock(mutex_);
    for (const Peer& peer : peers_) {
      if (peer.compared < sequence && !peer.gone) awaited.push_back({peer.socket.get(), POLLIN, 0});
    }
  }
  (void)::poll(awaited.data(), awaited.size(), static_cast<int>(limit.count()));
}

void Channel::abort(End reason) {
  const std::lock_guard lock(mutex_);
  end(std::move(reason));
}

void Channel::abandon(std::string reason) {
  const std::lock_guard lock(mutex_);
  if (!over_.load()) conclude({false, std::move(reason)});
}

std::optional<End> Channel::over(milliseconds patience) {
  const auto until = Clock::now() + patience;
  std::unique_lock lock(news_mutex_);
  while (!over_.load()) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left <= milliseconds(0)) return std::nullopt;
    news_.wait_for(lock, left, [&] { return over_.load(); });
  }
  return end_;
}

std::string Channel::missing(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  look();
  std::vector<int> absent;
  for (const Peer& peer : peers_) {
    if (peer.announced < sequence) absent.push_back(peer.rank);
  }
  if (absent.empty()) return "all ranks entered it";
  return ranks_text(absent) + (absent.size() == 1 ? " has" : " have") + " not entered it";
}

void Channel::leave() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(leaving_, true) || over_.load()) return;
  for (Peer& peer : peers_) {
    peer.hang_up = true;
    tell(peer, {Word::left});
  }
}

void Channel::close() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  wake_thread();
  thread_.join();
}

void Channel::wake_thread() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Channel::run() {
  while (!stop_.load()) {
    wait_for_news();
    tend();
    if (over_.load() && on_end_) std::exchange(on_end_, nullptr)(end_);
  }
}

void Channel::tend() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  // After a gap this rank was stopped itself, perhaps with all others: give them time to go on.
  if (now - last_look_ > limits_.silence / 2) trust_from_ = now + limits_.silence;
  last_look_ = now;
  for (Peer& peer : peers_) send(peer);
  if (over_.load() || leaving_) return;
  beat(now);
  look();
  judge_silence(now);
}

/// Returns at the latest when it is time to look. What peers say does not wake it, or every
/// collective would cost a switch of threads: only the end of their connections does, and that is
/// how they say what must be read at once.
void Channel::wait_for_news() {
  std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    const bool listening = !over_.load() && !leaving_;
    for (const Peer& peer : peers_) {
      const bool sending = !peer.unsent.empty();
      if (peer.gone || (!listening && !sending)) continue;
      const int events = (listening ? POLLRDHUP : 0) | (sending ? POLLOUT : 0);
      watched.push_back({peer.socket.get(), static_cast<short>(events), 0});
    }
  }
  (void)::poll(watched.data(), watched.size(), static_cast<int>(limits_.look.count()));
  std::uint64_t calls = 0;
  (void)!::read(wake_.get(), &calls, sizeof calls);
}

void Channel::look() {
  for (Peer& peer : peers_) read(peer);
  update_agreed();
  judge();
}

void Channel::read(Peer& peer) {
  std::array<char, kReadBytes> bytes;
  while (!peer.gone) {
    const ssize_t n = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      peer.gone = Clock::now();
      peer.error = n == 0 || errno == ECONNRESET ? 0 : errno;
      return;
    }
    peer.heard = Clock::now();
    peer.reader.add({bytes.data(), static_cast<std::size_t>(n)});
    Frame frame;
    FrameReader::Took took = FrameReader::Took::nothing;
    while ((took = peer.reader.take(frame)) == FrameReader::Took::frame) take(peer, frame);
    if (took == FrameReader::Took::garbage) {
      return end({false, name(peer) + " sent what no rank says on a control connection"});
    }
    if (static_cast<std::size_t>(n) < bytes.size()) return;  // that was all
  }
}

void Channel::take(Peer& peer, Frame& frame) {
  switch (frame.word) {
    case Word::entered:
      if (frame.sequence != peer.announced + 1) {
        return end({false, name(peer) + " lost count of its collectives"});
      }
      ++peer.announced;
      peer.entries.push_back({frame.fingerprint, std::move(frame.text)});
      return compare(peer);
    case Word::left:
      peer.left = true;
      return;
    case Word::abort:
      return end({frame.disagreement, std::move(frame.text)});
    case Word::hello:
    case Word::alive:
      return;
  }
}

/// What the peer has entered beside what this rank has.
void Channel::compare(Peer& peer) {
  const std::uint64_t first_own = entered_.load() + 1 - own_.size();
  while (!peer.entries.empty() && peer.compared < entered_.load()) {
    const Entry& own = own_[peer.compared + 1 - first_own];
    const Entry& theirs = peer.entries.front();
    if (own.fingerprint != theirs.fingerprint) {
      const bool own_first = rank_ < peer.rank;
      const std::string mine = shm::entry_text(rank_, own.fingerprint, own.site);
      const std::string other = shm::entry_text(peer.rank, theirs.fingerprint, theirs.site);
      return end({true, "collective #" + std::to_string(peer.compared + 1) + ": " +
                            (own_first ? mine : other) + ", " + (own_first ? other : mine)});
    }
    peer.entries.pop_front();
    ++peer.compared;
  }
}

void Channel::update_agreed() {
  std::uint64_t agreed = entered_.load();
  for (const Peer& peer : peers_) agreed = std::min(agreed, peer.compared);
  while (entered_.load() - own_.size() < agreed) own_.pop_front();
  agreed_.store(agreed);
}

/// Whether a peer that this rank still needs has gone.
void Channel::judge() {
  const std::uint64_t needed = entered_.load();
  for (const Peer& peer : peers_) {
    if (over_.load()) return;
    if (!peer.left && !peer.gone) continue;
    const bool owes = peer.announced < needed;
    if (peer.left) {
      if (owes) end({false, name(peer) + " has left the group"});
      continue;
    }
    // What it entered may be complete, and the rest of its data still on its way here. If it is
    // not, the data fails where it was to come from this peer.
    const bool late = moving_.load() > 0 && Clock::now() - *peer.gone > limits_.silence;
    if (!owes && !late && !data_failed_.load()) continue;
    end({false, peer.error == 0 ? name(peer) + " ended"
                                : name(peer) + " cannot be reached: " +
                                      std::generic_category().message(peer.error)});
  }
}

void Channel::judge_silence(Clock::time_point now) {
  if (now < trust_from_) return;
  for (Peer& peer : peers_) {
    if (over_.load()) return;
    if (!peer.left && !peer.gone) judge_silence(peer, now);
  }
}

void Channel::judge_silence(Peer& peer, Clock::time_point now) {
  const auto silent = now - peer.heard;
  if (silent <= limits_.knock) return peer.knocks.stop();
  peer.knocks.tend(now);
  const ProcessIdentity& own = cards_[static_cast<std::size_t>(rank_)].process;
  const auto& process = cards_[static_cast<std::size_t>(peer.rank)].process;
  if (silent > limits_.look_at_process && look_at(process, own).state == ProcessState::stopped) {
    return end({false, name(peer) + " is stopped (state T): kill -CONT lets it go on, but not this "
                                    "group"});
  }
  const auto answered = peer.knocks.answered();
  const bool is_in_reach = answered && now - *answered < limits_.silence - limits_.knock;
  if (silent <= (is_in_reach ? limits_.patience : limits_.silence)) return;
  const auto silent_ms = std::chrono::duration_cast<milliseconds>(silent).count();
  end({false, name(peer) + " has not been heard for " + std::to_string(silent_ms) + " ms" +
                  (is_in_reach ? ", though its host answers: it is stopped, or starved"
                               : " and its host does not answer: the network to it is cut, or it "
                                 "is down")});
}

void Channel::beat(Clock::time_point now) {
  for (Peer& peer : peers_) {
    if (now - peer.told >= limits_.heartbeat) tell(peer, {Word::alive});
  }
}

void Channel::tell(Peer& peer, const Frame& frame) {
  if (peer.gone) return;
  peer.told = Clock::now();
  append(peer.unsent, frame);
  send(peer);
}

/// As much as the socket takes; the rest goes when the thread comes by.
void Channel::send(Peer& peer) {
  while (!peer.unsent.empty() && !peer.gone) {
    const ssize_t n =
        ::send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    // Its last words may still lie here unread: that it is gone is for read() to find.
    if (n < 0) return peer.unsent.clear();
    peer.unsent.erase(0, static_cast<std::size_t>(n));
  }
  if (peer.unsent.empty() && std::exchange(peer.hang_up, false)) {
    ::shutdown(peer.socket.get(), SHUT_WR);
  }
}

/// The others first: who hears of it here may end the process at once, and would be taken for the
/// cause by those who got no word of it.
void Channel::end(End reason) {
  if (over_.load()) return;
  for (Peer& peer : peers_) {
    peer.hang_up = true;  // wakes the peer's thread
    tell(peer, {Word::abort,
                reason.disagreement,
                static_cast<std::uint32_t>(rank_),
                0,
                {},
                reason.reason});
  }
  conclude(std::move(reason));
}

void Channel::conclude(End reason) {
  {
    const std::lock_guard lock(news_mutex_);
    end_ = std::move(reason);
    ended_at_ = Clock::now();
    over_.store(true);
  }
  news_.notify_all();
  wake_thread();
}

std::string Channel::name(const Peer& peer) const {
  return name_of(peer.rank, cards_[static_cast<std::size_t>(peer.rank)]);
}

}  // namespace lockstep::comm::control
