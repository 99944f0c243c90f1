// Memory of a group of two as a hostile rank 1 leaves it, attached to and used by rank 0: refused,
// or read without a step outside. The input lies over the fields, in this order:
// number of ranks, what rank 0 does, pages that are missing, then Header, the abort word and text,
// RankBlock 1, its mailbox to rank 0, and its counts of an uneven all_to_all.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/shm/gather_steps.h"
#include "lockstep/comm/shm/mailbox.h"
#include "lockstep/comm/shm/operation.h"
#include "tests/fuzz/verdict.h"

namespace shm = lockstep::comm::shm;

namespace {

constexpr int kLooks = 40;
constexpr std::size_t kMailboxBytes = offsetof(shm::Mailbox, stamps) + sizeof(shm::Mailbox::stamps);
constexpr std::size_t kCount = 30000;  // more than goes at once

/// Takes the input bit by bit; what it does not reach stays as it is.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  [[nodiscard]] std::size_t byte() {
    std::uint8_t value = 0;
    lay_over(&value, 1);
    return value;
  }
  void lay_over(void* at, std::size_t bytes) {
    const std::size_t taken = std::min(bytes, left_.size());
    if (taken > 0) std::memcpy(at, left_.data(), taken);
    left_ = left_.subspan(taken);
  }

 private:
  std::span<const std::uint8_t> left_;
};

const shm::Layout& layout() {
  static const shm::Layout layout(2, 8 * shm::kPage, shm::kPage);
  return layout;
}

std::span<std::byte> memory() {
  static auto* const data =
      static_cast<std::byte*>(::operator new(layout().total_bytes(), std::align_val_t(shm::kPage)));
  return {data, layout().total_bytes()};
}

/// A pair of buffers, and a request that fits them.
struct Call {
  explicit Call(std::size_t number) {
    using shm::Collective;
    const auto collective = static_cast<Collective>(number % 9);
    const bool large = number / 9 % 2 == 1;
    request.kind.collective = collective;
    request.kind.type = shm::ElementType::f32;
    request.count = collective == Collective::barrier ? 0 : (large ? kCount : 6);
    const bool rooted = collective == Collective::reduce || collective == Collective::broadcast ||
                        collective == Collective::gather || collective == Collective::scatter;
    if (rooted) request.kind.root = static_cast<std::uint32_t>(number / 18 % 2);
    input.resize(2 * request.count);
    output.resize(2 * request.count);
    if (collective == Collective::all_to_all && large) {
      request.kind.uneven = true;
      request.send_counts = {5, kCount};
      request.receive_counts = {5, kCount};
    }
    request.input = input.data();
    request.output = output.data();
  }

  std::vector<float> input;
  std::vector<float> output;
  shm::Request request;
};

void run_collective(const shm::Segment& segment, std::size_t number) {
  Call call(number);
  shm::RingWriter writer;
  shm::Gathering gathering(segment);
  shm::Progress progress;
  progress.sequence = number / 36 % 2;  // from the second one on, ranks may read each other
  const auto operation = shm::make_operation(segment, writer, gathering, call.request);
  operation->start(progress);
  for (int i = 0; i < kLooks && !operation->done(); ++i) (void)operation->advance(progress);
  LOCKSTEP_CHECK(!operation->title().empty() && !operation->missing().empty(), "it has words");
  LOCKSTEP_CHECK(operation->deserter() <= 1, "a rank of the group");
}

void exchange_messages(const shm::Segment& segment, std::size_t number) {
  shm::RingWriter writer;
  shm::Mailroom room(segment, writer);
  std::vector<std::byte> data(number % 2 == 0 ? 100 : 3 * segment.layout().mail_piece_bytes());
  std::vector<std::shared_ptr<shm::Transfer>> ended;
  const auto post = [&](bool sends, int peer, int tag) {
    room.post(std::make_shared<shm::Transfer>(
        segment, shm::TransferRequest{.sends = sends,
                                      .peer = peer,
                                      .tag = tag,
                                      .type = shm::ElementType::u8,
                                      .data = data.data(),
                                      .bytes = data.size(),
                                      .owner = nullptr,
                                      .deadline = std::chrono::milliseconds(1)}));
  };
  post(false, number / 2 % 2 == 0 ? 1 : shm::kAnyRank, 7);
  post(true, 1, 7);
  for (int i = 0; i < kLooks; ++i) (void)room.advance(ended);
  post(false, 1, 8);
  (void)room.advance(ended);
  if (const auto* const trouble = room.in_trouble()) {
    LOCKSTEP_CHECK(!trouble->title().empty() && !trouble->missing().empty(), "it has words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<std::byte> all = memory();
  shm::Segment::format(all, layout());
  Input input(data, size);
  const int ranks = static_cast<int>(input.byte());
  const std::size_t action = input.byte();
  const std::size_t missing = std::min(input.byte() * shm::kPage, all.size());
  auto& header = *reinterpret_cast<shm::Header*>(all.data());
  const shm::Segment own(all, 0, 2);
  input.lay_over(all.data(), offsetof(shm::Header, abort));
  input.lay_over(&header.abort, offsetof(shm::Header, abort_text) - offsetof(shm::Header, abort));
  input.lay_over(header.abort_text, shm::kLine);
  input.lay_over(static_cast<void*>(&own.block(1)), sizeof(shm::RankBlock));
  input.lay_over(static_cast<void*>(&own.mailbox(1, 0)), kMailboxBytes);
  input.lay_over(own.direct(1, 1), 2 * sizeof(std::uint64_t));
  try {
    const shm::Segment segment(all.first(all.size() - missing), 0, std::max(ranks, 1));
    LOCKSTEP_CHECK(segment.layout().total_bytes() == all.size() - missing, "wrong accepted");
    LOCKSTEP_CHECK(segment.layout().step_bytes() <= segment.layout().ring_bytes(), "wrong size");
    lockstep::fuzz::accepted = true;
    // 1 is a writer that was killed in between: it is waited for.
    if (segment.aborted() && header.abort.load() != 1) (void)segment.end();
    if (action < 128) {
      run_collective(segment, action);
    } else {
      exchange_messages(segment, action);
    }
  } catch (const lockstep::BadData&) {
  } catch (const lockstep::comm::Disagreement&) {
  }
  return 0;
}
