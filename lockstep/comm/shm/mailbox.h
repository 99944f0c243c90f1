// Messages from one rank to another, in pieces through a small ring for each ordered pair of ranks.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/shm/completion.h"
#include "lockstep/comm/shm/element.h"
#include "lockstep/comm/shm/ring_writer.h"
#include "lockstep/comm/shm/segment.h"

namespace lockstep::comm::shm {

inline constexpr int kAnyRank = -1;

struct TransferRequest {
  bool sends = false;
  int peer = 0;  // kAnyRank: receives from whoever sends
  int tag = 0;
  ElementType type = ElementType::u8;
  void* data = nullptr;  // contiguous; valid until the transfer is done
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;      // of the data: kept until it is done
  Ticket ticket{};                        // of the flight record
  std::chrono::milliseconds deadline{0};  // also while nobody waits; 0 = none
};

/// One side of a message. A send is done when its receiver has begun to take it, and so has found
/// type and size equal to its own.
class Transfer : public Completion {
 public:
  Transfer(const Segment& segment, TransferRequest request);

  [[nodiscard]] const TransferRequest& request() const { return request_; }
  [[nodiscard]] std::chrono::steady_clock::duration age() const {
    return std::chrono::steady_clock::now() - posted_at_;
  }
  /// The other rank; kAnyRank until a message for it has come.
  [[nodiscard]] int peer() const { return peer_.load(std::memory_order_acquire); }

  [[nodiscard]] std::string title() const override;
  [[nodiscard]] std::string missing() const override;
  [[nodiscard]] int deserter() const override;

 private:
  friend class Mailroom;

  const Segment& segment_;
  const TransferRequest request_;
  std::atomic<int> peer_;
  std::size_t posted_bytes_ = 0;  // of a send
  /// Of a send, in its ring; the largest number until it is posted.
  std::uint64_t first_piece_ = std::numeric_limits<std::uint64_t>::max();
  const std::chrono::steady_clock::time_point posted_at_ = std::chrono::steady_clock::now();
};

/// All messages of one rank. Only post() and busy() may be called by several threads at once.
/// Messages of one sender and one tag arrive in order; a receive takes the first that fits, and
/// what came for other tags before it waits in memory of this rank.
class Mailroom {
 public:
  Mailroom(const Segment& segment, RingWriter& writer);

  void post(std::shared_ptr<Transfer> transfer);
  /// Some transfer has not ended.
  [[nodiscard]] bool busy() const { return open_.load() > 0; }
  /// One look; true = something moved. What ended is added to `ended`.
  /// \throws Disagreement when a message is not what its receiver expects, BadData when it cannot
  /// be a message.
  bool advance(std::vector<std::shared_ptr<Transfer>>& ended);
  /// The transfer with a deadline that cannot end or is the oldest; null = none is in flight.
  [[nodiscard]] const Transfer* in_trouble() const;
  /// Ends all that are in flight.
  void fail_all(const std::exception_ptr& error, std::vector<std::shared_ptr<Transfer>>& ended);

 private:
  using Ended = std::vector<std::shared_ptr<Transfer>>;

  /// A message nobody has asked for yet.
  struct Letter {
    MailStamp stamp{};
    std::vector<std::byte> bytes;
  };
  struct Outbox {
    std::deque<std::shared_ptr<Transfer>> writing;    // the first one partly
    std::deque<std::shared_ptr<Transfer>> accepting;  // posted whole; not yet looked at
    std::uint64_t posted = 0;                         // pieces
  };
  struct Inbox {
    bool open = false;                  // a message has come in part
    std::shared_ptr<Transfer> receive;  // into this, or
    Letter letter;                      // into this
    std::size_t bytes = 0;              // of it that came
    std::deque<Letter> kept;
    std::uint64_t taken = 0;  // pieces
  };

  void take_posted(Ended& ended);
  bool send_to(int peer, Ended& ended);
  void post_piece(int peer, Outbox& out);
  bool receive_from(int peer, Ended& ended);
  bool open_message(int peer, const MailStamp& stamp);
  void take_piece(int peer, const MailStamp& stamp);
  void close_message(int peer, Ended& ended);
  bool deliver_kept(const std::shared_ptr<Transfer>& receive, Ended& ended);
  void hand_over(const Letter& letter, int peer, const std::shared_ptr<Transfer>& receive,
                 Ended& ended);
  [[nodiscard]] std::shared_ptr<Transfer> take_pending(int peer, int tag);
  [[nodiscard]] bool is_wanted(int peer) const;
  [[nodiscard]] bool agrees(const MailStamp& stamp, int peer, Transfer& receive);
  void refuse(const std::string& what);
  void end(std::shared_ptr<Transfer> transfer, Ended& ended);

  const Segment& segment_;
  RingWriter& writer_;
  std::vector<Outbox> out_;  // by rank
  std::vector<Inbox> in_;
  std::list<std::shared_ptr<Transfer>> pending_;  // receives, in the order they were posted
  std::string refused_;                           // why the group is over

  std::atomic<int> open_{0};
  std::atomic<bool> has_posted_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Transfer>> posted_;
};

}  // namespace lockstep::comm::shm
