#include "lockstep/comm/shm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/comm/records/disagreement.h"

namespace lockstep::comm::shm {
namespace {

std::string content_of(std::uint64_t bytes, std::uint32_t type) {
  const auto element = static_cast<ElementType>(type);
  return std::to_string(bytes / bytes_of(element)) + " " + std::string(name(element));
}

}  // namespace

Transfer::Transfer(const Segment& segment, TransferRequest request)
    : segment_(segment), request_(std::move(request)), peer_(request_.peer) {}

std::string Transfer::title() const {
  const int other = peer();
  return std::string(request_.sends ? "sending to " : "receiving from ") +
         (other == kAnyRank ? "any rank" : "rank " + std::to_string(other)) + " (tag " +
         std::to_string(request_.tag) + ")";
}

std::string Transfer::missing() const {
  const int other = peer();
  if (other == kAnyRank) return "no rank has sent it";
  return "rank " + std::to_string(other) +
         (request_.sends ? " has not received it" : " has not sent it");
}

int Transfer::deserter() const {
  const auto left = [&](int rank) {
    return segment_.block(rank).closed.load(std::memory_order_acquire) != 0;
  };
  // A message may lie in the mailbox although its sender has left.
  const auto is_silent = [&](int sender) {
    const Mailbox& box = segment_.mailbox(sender, segment_.rank());
    return box.posted.value.load(std::memory_order_acquire) ==
           box.taken.value.load(std::memory_order_acquire);
  };
  // And a receiver may have taken the message, and left, since this rank last looked: all of it, or
  // the first of the pieces that lie there.
  const auto has_taken = [&](int receiver) {
    const Mailbox& box = segment_.mailbox(segment_.rank(), receiver);
    return posted_bytes_ == request_.bytes &&
           first_piece_ < box.taken.value.load(std::memory_order_acquire);
  };
  const int other = peer();
  if (other != kAnyRank) {
    if (!left(other) || done()) return -1;
    return (request_.sends ? !has_taken(other) : is_silent(other)) ? other : -1;
  }
  int gone = -1;
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r == segment_.rank()) continue;
    if (!left(r) || !is_silent(r)) return -1;
    gone = r;
  }
  return gone;
}

Mailroom::Mailroom(const Segment& segment, RingWriter& writer)
    : segment_(segment),
      writer_(writer),
      out_(static_cast<std::size_t>(segment.ranks())),
      in_(static_cast<std::size_t>(segment.ranks())) {}

void Mailroom::post(std::shared_ptr<Transfer> transfer) {
  open_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(transfer));
  has_posted_.store(true, std::memory_order_release);
}

bool Mailroom::advance(Ended& ended) {
  if (!busy()) return false;
  const std::size_t before = ended.size();
  if (has_posted_.load(std::memory_order_acquire)) take_posted(ended);
  bool moved = false;
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r == segment_.rank()) continue;
    moved = send_to(r, ended) || moved;
    moved = receive_from(r, ended) || moved;
  }
  if (!refused_.empty()) {
    segment_.abort(refused_, AbortKind::disagreement);
    throw Disagreement(refused_);
  }
  return moved || ended.size() != before;
}

void Mailroom::take_posted(Ended& ended) {
  std::vector<std::shared_ptr<Transfer>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    has_posted_.store(false, std::memory_order_release);
  }
  for (auto& transfer : posted) {
    if (transfer->request().sends) {
      out_[static_cast<std::size_t>(transfer->request().peer)].writing.push_back(
          std::move(transfer));
    } else if (!deliver_kept(transfer, ended)) {
      pending_.push_back(std::move(transfer));
    }
  }
}

bool Mailroom::send_to(int peer, Ended& ended) {
  Outbox& out = out_[static_cast<std::size_t>(peer)];
  if (out.writing.empty() && out.accepting.empty()) return false;
  const Mailbox& box = segment_.mailbox(segment_.rank(), peer);
  const std::uint64_t taken = box.taken.value.load(std::memory_order_acquire);
  if (taken > out.posted) refuse_values(peer, "more pieces of messages taken than were posted");
  bool moved = false;
  while (!out.writing.empty() && out.posted < taken + kMailPieces) {
    post_piece(peer, out);
    moved = true;
  }
  while (!out.accepting.empty() && out.accepting.front()->first_piece_ < taken) {
    end(std::move(out.accepting.front()), ended);
    out.accepting.pop_front();
    moved = true;
  }
  return moved;
}

void Mailroom::post_piece(int peer, Outbox& out) {
  Transfer& transfer = *out.writing.front();
  const TransferRequest& request = transfer.request();
  Mailbox& box = segment_.mailbox(segment_.rank(), peer);
  const std::size_t bytes =
      std::min(segment_.layout().mail_piece_bytes(), request.bytes - transfer.posted_bytes_);
  const bool is_first = transfer.posted_bytes_ == 0;
  if (is_first) transfer.first_piece_ = out.posted;
  box.stamps[out.posted % kMailPieces] = {request.bytes, bytes,
                                          static_cast<std::uint32_t>(request.type), request.tag,
                                          is_first ? 1U : 0U};
  if (bytes > 0) {
    writer_.copy(segment_.mail_piece(segment_.rank(), peer, out.posted),
                 static_cast<const std::byte*>(request.data) + transfer.posted_bytes_, bytes);
  }
  transfer.posted_bytes_ += bytes;
  segment_.publish_to(peer, box.posted.value, ++out.posted);
  if (transfer.posted_bytes_ == request.bytes) {
    out.accepting.push_back(std::move(out.writing.front()));
    out.writing.pop_front();
  }
}

bool Mailroom::receive_from(int peer, Ended& ended) {
  Inbox& in = in_[static_cast<std::size_t>(peer)];
  if (!in.open && pending_.empty()) return false;
  Mailbox& box = segment_.mailbox(peer, segment_.rank());
  bool moved = false;
  for (;;) {
    const std::uint64_t posted = box.posted.value.load(std::memory_order_acquire);
    if (posted == in.taken) break;
    if (posted - in.taken > kMailPieces) refuse_values(peer, "a mailbox with more than it holds");
    const MailStamp stamp = box.stamps[in.taken % kMailPieces];
    if (!in.open && !open_message(peer, stamp)) break;
    take_piece(peer, stamp);
    segment_.publish_to(peer, box.taken.value, ++in.taken);
    moved = true;
    if (in.bytes == in.letter.stamp.message_bytes) close_message(peer, ended);
  }
  return moved;
}

/// False: nobody waits for anything of this rank, so that the message stays where it is.
bool Mailroom::open_message(int peer, const MailStamp& stamp) {
  if (stamp.is_first == 0) refuse_values(peer, "a message without its beginning");
  Inbox& in = in_[static_cast<std::size_t>(peer)];
  in.receive = take_pending(peer, stamp.tag);
  if (in.receive) {
    if (!agrees(stamp, peer, *in.receive)) return false;
  } else if (!is_wanted(peer)) {
    return false;
  }
  in.open = true;
  in.bytes = 0;
  in.letter = {stamp, {}};
  return true;
}

void Mailroom::take_piece(int peer, const MailStamp& stamp) {
  Inbox& in = in_[static_cast<std::size_t>(peer)];
  const std::uint64_t left_bytes = in.letter.stamp.message_bytes - in.bytes;
  if (stamp.message_bytes != in.letter.stamp.message_bytes ||
      (stamp.is_first != 0) != (in.bytes == 0) ||
      stamp.piece_bytes !=
          std::min<std::uint64_t>(segment_.layout().mail_piece_bytes(), left_bytes)) {
    refuse_values(peer, "a message in a piece of impossible size");
  }
  const std::byte* const from = segment_.mail_piece(peer, segment_.rank(), in.taken);
  if (!in.receive) {
    in.letter.bytes.insert(in.letter.bytes.end(), from, from + stamp.piece_bytes);
  } else if (stamp.piece_bytes > 0) {
    std::memcpy(static_cast<std::byte*>(in.receive->request().data) + in.bytes, from,
                stamp.piece_bytes);
  }
  in.bytes += stamp.piece_bytes;
}

void Mailroom::close_message(int peer, Ended& ended) {
  Inbox& in = in_[static_cast<std::size_t>(peer)];
  in.open = false;
  if (in.receive) {
    end(std::move(in.receive), ended);
    in.receive = nullptr;
    return;
  }
  if (const auto receive = take_pending(peer, in.letter.stamp.tag)) {  // posted meanwhile
    hand_over(in.letter, peer, receive, ended);
  } else {
    in.kept.push_back(std::move(in.letter));
  }
}

bool Mailroom::deliver_kept(const std::shared_ptr<Transfer>& receive, Ended& ended) {
  const TransferRequest& request = receive->request();
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (request.peer != kAnyRank && request.peer != r) continue;
    auto& kept = in_[static_cast<std::size_t>(r)].kept;
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const Letter& letter) {
      return letter.stamp.tag == request.tag;
    });
    if (found == kept.end()) continue;
    const Letter letter = std::move(*found);
    kept.erase(found);
    hand_over(letter, r, receive, ended);
    return true;
  }
  return false;
}

void Mailroom::hand_over(const Letter& letter, int peer, const std::shared_ptr<Transfer>& receive,
                         Ended& ended) {
  if (!agrees(letter.stamp, peer, *receive)) {
    pending_.push_back(receive);  // fails with the others
    return;
  }
  if (!letter.bytes.empty()) {
    std::memcpy(receive->request().data, letter.bytes.data(), letter.bytes.size());
  }
  end(receive, ended);
}

std::shared_ptr<Transfer> Mailroom::take_pending(int peer, int tag) {
  for (auto at = pending_.begin(); at != pending_.end(); ++at) {
    const TransferRequest& request = (*at)->request();
    if (request.tag != tag || (request.peer != kAnyRank && request.peer != peer)) continue;
    auto found = std::move(*at);
    pending_.erase(at);
    return found;
  }
  return nullptr;
}

bool Mailroom::is_wanted(int peer) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const auto& receive) {
    return receive->request().peer == kAnyRank || receive->request().peer == peer;
  });
}

bool Mailroom::agrees(const MailStamp& stamp, int peer, Transfer& receive) {
  receive.peer_.store(peer, std::memory_order_release);
  const TransferRequest& request = receive.request();
  const auto type = static_cast<std::uint32_t>(request.type);
  if (stamp.message_bytes == request.bytes && stamp.type == type) return true;
  const std::string what =
      "message with tag " + std::to_string(request.tag) + ": rank " + std::to_string(peer) +
      " sends " + content_of(stamp.message_bytes, stamp.type) + ", rank " +
      std::to_string(segment_.rank()) + " expects " + content_of(request.bytes, type);
  refuse(what);
  return false;
}

void Mailroom::refuse(const std::string& what) {
  if (refused_.empty()) refused_ = what;
}

void Mailroom::end(std::shared_ptr<Transfer> transfer, Ended& ended) {
  transfer->complete();
  open_.fetch_sub(1, std::memory_order_acq_rel);
  ended.push_back(std::move(transfer));
}

const Transfer* Mailroom::in_trouble() const {
  const Transfer* oldest = nullptr;
  const Transfer* deserted = nullptr;
  const auto look = [&](const std::shared_ptr<Transfer>& transfer) {
    if (!transfer || transfer->request().deadline.count() == 0) return;
    if (deserted == nullptr && transfer->deserter() >= 0) deserted = transfer.get();
    if (oldest == nullptr || transfer->age() > oldest->age()) oldest = transfer.get();
  };
  for (const Outbox& out : out_) {
    for (const auto& transfer : out.writing) look(transfer);
    for (const auto& transfer : out.accepting) look(transfer);
  }
  for (const Inbox& in : in_) look(in.receive);
  for (const auto& transfer : pending_) look(transfer);
  return deserted != nullptr ? deserted : oldest;
}

void Mailroom::fail_all(const std::exception_ptr& error, Ended& ended) {
  if (has_posted_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    for (auto& transfer : posted_) pending_.push_back(std::move(transfer));
    posted_.clear();
    has_posted_.store(false, std::memory_order_release);
  }
  for (Outbox& out : out_) {
    for (auto* queue : {&out.writing, &out.accepting}) {
      for (auto& transfer : *queue) pending_.push_back(std::move(transfer));
      queue->clear();
    }
  }
  for (Inbox& in : in_) {
    if (in.receive) pending_.push_back(std::move(in.receive));
    in.receive = nullptr;
    in.open = false;
  }
  for (auto& transfer : pending_) {
    transfer->fail(error);
    open_.fetch_sub(1, std::memory_order_acq_rel);
    ended.push_back(std::move(transfer));
  }
  pending_.clear();
}

}  // namespace lockstep::comm::shm
