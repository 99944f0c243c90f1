#include "lockstep/comm/records/record_ring.h"

#include <algorithm>

namespace lockstep::comm {

std::string describe(const CollectiveRecord& record) {
  std::string text = std::string(record.op) + " #" + std::to_string(record.seq);
  if (record.dtype.empty()) return text;
  return text + " (" + std::string(record.dtype) + ", " + std::to_string(record.count) +
         (record.count == 1 ? " element)" : " elements)");
}

std::int64_t RecordRing::now_us() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

const CollectiveRecord& RecordRing::slot(std::int64_t seq) const {
  return ring_[static_cast<std::size_t>(seq) % kCapacity];
}

std::int64_t RecordRing::begin(std::string_view op, std::string_view dtype, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  const std::int64_t seq = ++last_seq_;
  ring_[static_cast<std::size_t>(seq) % kCapacity] = {
      seq, op, dtype, count, CollectiveState::issued, now_us(), 0};
  return seq;
}

void RecordRing::end(std::int64_t seq, CollectiveState state) {
  const std::lock_guard lock(mutex_);
  auto& record = ring_[static_cast<std::size_t>(seq) % kCapacity];
  if (record.seq != seq || record.state != CollectiveState::issued) return;
  record.state = state;
  record.ended_us = std::max<std::int64_t>(now_us(), 1);
  if (state != CollectiveState::completed) return;
  if (!last_completed_ || last_completed_->seq < seq) last_completed_ = record;
}

std::optional<CollectiveRecord> RecordRing::find(std::int64_t seq) const {
  const std::lock_guard lock(mutex_);
  if (seq < 1 || slot(seq).seq != seq) return std::nullopt;
  return slot(seq);
}

std::optional<CollectiveRecord> RecordRing::last_completed() const {
  const std::lock_guard lock(mutex_);
  return last_completed_;
}

std::vector<CollectiveRecord> RecordRing::records() const {
  const std::lock_guard lock(mutex_);
  const auto capacity = static_cast<std::int64_t>(kCapacity);
  std::vector<CollectiveRecord> out;
  for (std::int64_t seq = std::max<std::int64_t>(1, last_seq_ - capacity + 1); seq <= last_seq_;
       ++seq) {
    out.push_back(slot(seq));
  }
  return out;
}

}  // namespace lockstep::comm
