// What the ranks of a group tell each other beside the data: what they enter, that they live, and
// why the group is over.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/comm/control/door.h"
#include "lockstep/comm/control/frame.h"
#include "lockstep/comm/control/knocks.h"

namespace lockstep::comm::control {

/// How the data of one collective stands; set from any thread by Channel::data_ended().
enum class DataState : std::uint8_t { moving, there, failed };

/// What tells a rank that all others have entered the same.
enum class Proof : std::uint8_t {
  words,  // their announcements
  data,   // it carries the fingerprint, and there is none without that of every rank
};

struct Transfer {
  std::atomic<DataState> state{DataState::moving};
  const Proof proof = Proof::words;
};

enum class Outcome : std::uint8_t {
  done,         // the data is there and every rank entered the same
  data_failed,  // the transfer says why
  timed_out,
  over,  // see Channel::over()
};

/// Why a group is over, in the words that every rank of it gets.
struct End {
  bool disagreement = false;
  std::string reason{};
};

struct Limits {
  std::chrono::milliseconds heartbeat{1000};  // at least so often every peer hears something
  /// How long a peer says nothing before its host is knocked at,
  std::chrono::milliseconds knock{1500};
  /// before its process is looked at, if it is one of this host: it may be stopped,
  std::chrono::milliseconds look_at_process{2000};
  /// before it is lost, if its host does not answer either: sooner than 5 s, which others may rely
  /// on,
  std::chrono::milliseconds silence{4000};
  /// and if it does: lost packets and a machine that swaps hold up what it says.
  std::chrono::milliseconds patience{15000};
  std::chrono::milliseconds look{50};  // how long what came may lie unread
};

/// Told of the end of a group, once, by the channel's own thread.
using OnEnd = std::function<void(const End& end)>;

/// One connection to every other rank, and a thread that watches them. Every collective is
/// announced by its fingerprint; the first difference, lost peer or abort ends the group on all
/// ranks. Thread-safe, but collectives are entered in one order.
///
/// An announcement costs a system call at both ends, more than a small share of what 256 KiB take.
/// Where nobody needs the words to go on they wait for others: they tell who disagrees, and who is
/// missing, when something does not end within milliseconds.
class Channel {
 public:
  /// \param peers from Door::meet(). \param cards of all ranks.
  Channel(int rank, std::vector<Fd> peers, std::vector<Card> cards, Limits limits = {},
          OnEnd on_end = {});
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  /// As leave() and close().
  ~Channel();

  /// Number of the collective that this rank entered last; the first is 1.
  [[nodiscard]] std::uint64_t entered() const { return entered_.load(); }
  /// Tells everybody that this rank enters a collective. Does not block.
  void enter(const shm::Fingerprint& fingerprint, std::string_view site,
             Proof proof = Proof::words);
  /// The same for a collective whose data moves in steps, each between data_begins() and
  /// data_ended(), or not over this rank.
  void declare(const shm::Fingerprint& fingerprint, std::string_view site);
  void data_begins() { moving_.fetch_add(1); }
  /// Its data came or failed.
  void data_ended(Transfer& transfer, bool ok);

  /// Until the data is there and it is proved that all ranks have entered the same.
  [[nodiscard]] Outcome wait(std::uint64_t sequence, const Transfer& transfer,
                             std::chrono::milliseconds deadline);
  /// True when wait() would not block.
  [[nodiscard]] bool poll(std::uint64_t sequence, const Transfer& transfer);

  /// Ends the group on every rank; the first reason stands. Does not block.
  void abort(End end);
  /// Ends it here, without a word to the others.
  void abandon(std::string reason);
  /// Whether the group is over. \param patience for word of it: the data may notice first.
  [[nodiscard]] std::optional<End> over(std::chrono::milliseconds patience = {});
  /// "rank 1 has not entered it", "all ranks entered it".
  [[nodiscard]] std::string missing(std::uint64_t sequence);

  /// This rank enters nothing more; nobody takes its end for a fault.
  void leave();
  /// Ends the thread. Called before the channel goes where its last owner may be any thread.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    shm::Fingerprint fingerprint;
    std::string site;
  };
  struct Peer {
    int rank;
    Fd socket;
    Knocks knocks;
    FrameReader reader{};
    std::string unsent{};
    std::deque<Entry> entries{};  // that this rank has not entered yet
    std::uint64_t announced = 0;  // collectives it has entered
    std::uint64_t compared = 0;   // and that are the same here
    Clock::time_point heard{};
    Clock::time_point told{};
    std::optional<Clock::time_point> gone{};  // its connection ended
    int error = 0;                            // with which; 0 = as those of a process that ended
    bool left = false;
    bool hang_up = false;  // once everything is sent
  };

  void send_held_back();
  [[nodiscard]] bool is_done(std::uint64_t sequence, const Transfer& transfer) const;
  void listen(std::uint64_t sequence);
  void run();
  void wait_for_news();
  void wake_thread() const;
  void tend();
  // The following with mutex_ held:
  void announce(const shm::Fingerprint& fingerprint, std::string_view site, bool at_once);
  void look();
  void read(Peer& peer);
  void take(Peer& peer, Frame& frame);
  void compare(Peer& peer);
  void update_agreed();
  void judge();
  void judge_silence(Clock::time_point now);
  void judge_silence(Peer& peer, Clock::time_point now);
  void beat(Clock::time_point now);
  void tell(Peer& peer, const Frame& frame);
  void send(Peer& peer);
  void end(End end);
  void conclude(End end);
  [[nodiscard]] std::string name(const Peer& peer) const;
  void await_data(const Transfer& transfer, std::chrono::milliseconds limit);
  void salvage(std::uint64_t sequence, const Transfer& transfer);
  [[nodiscard]] bool may_end_well(std::uint64_t sequence);
  void await_words(std::uint64_t sequence, std::chrono::milliseconds limit);

  const int rank_;
  const std::vector<Card> cards_;
  const Limits limits_;
  OnEnd on_end_;  // the thread's
  Fd wake_;       // readable when the thread must look at once

  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::deque<Entry> own_;  // entered here and not yet by all; the last is number entered_
  Clock::time_point last_look_;
  Clock::time_point trust_from_;  // silence of others counts from here on
  bool leaving_ = false;

  std::atomic<std::uint64_t> entered_{0};
  std::atomic<std::uint64_t> agreed_{0};  // collectives that all ranks entered the same
  std::atomic<std::int64_t> moving_{0};   // whose data has not ended
  std::atomic<bool> data_failed_{false};
  std::atomic<bool> held_back_{false};      // announcements that wait for company,
  std::atomic<bool> awaited_words_{false};  // and some of them for the end of a transfer at most
  std::atomic<bool> stop_{false};

  std::mutex news_mutex_;  // innermost
  std::condition_variable news_;
  const Transfer* awaited_ = nullptr;  // by the only waiter; null = look at waiters_
  int waiters_ = 0;
  std::atomic<bool> over_{false};
  End end_;  // this and the next are set before over_
  Clock::time_point ended_at_{};

  std::thread thread_;
};

}  // namespace lockstep::comm::control
