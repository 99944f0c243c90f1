#include "lockstep/store/table.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

namespace lockstep::store {
namespace {

constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kEntryBytes = 64;  // charged for each entry beside its own bytes
constexpr std::size_t kEverybody = std::numeric_limits<std::size_t>::max();

Bytes one_byte(std::uint8_t value) { return {value}; }
Bytes number(std::uint64_t value) { return FrameWriter().u64(value).take(); }
Bytes text(const Bytes& value) { return FrameWriter().text(value).take(); }

/// A counter is stored as its decimal digits, as PyTorch's store does.
std::optional<std::int64_t> parse_counter(const Bytes& value) {
  const auto* begin = reinterpret_cast<const char*>(value.data());
  std::int64_t counter = 0;
  const auto [end, status] = std::from_chars(begin, begin + value.size(), counter);
  if (status != std::errc() || end != begin + value.size()) return std::nullopt;
  return counter;
}

}  // namespace

Table::Outcome Table::apply(ConnectionId from, Request request) {
  Outcome outcome;
  apply_write(from, request, outcome);
  apply_read(from, request, outcome);
  return outcome;
}

void Table::apply_write(ConnectionId from, Request& request, Outcome& outcome) {
  switch (request.query) {
    case Query::set:
      return put(request.keys[0], std::move(request.values[0]), outcome);
    case Query::compare_set:
      return compare_set(from, request, outcome);
    case Query::add:
      return add(from, request, outcome);
    case Query::delete_key:
      outcome.replies.push_back({from, number(static_cast<std::uint64_t>(erase(request.keys[0])))});
      return;
    case Query::append:
      return append(request.keys[0], request.values[0], outcome);
    case Query::multi_set:
      for (std::size_t i = 0; i < request.keys.size() && outcome.refusal.empty(); ++i) {
        put(request.keys[i], std::move(request.values[i]), outcome);
      }
      return;
    case Query::queue_push:
      return queue_push(request.keys[0], std::move(request.values[0]), outcome);
    case Query::queue_pop:
      return queue_pop(from, request.keys[0], outcome);
    default:
      return;
  }
}

void Table::apply_read(ConnectionId from, const Request& request, Outcome& outcome) {
  switch (request.query) {
    case Query::get:
      outcome.replies.push_back({from, text(value_or_empty(request.keys[0]))});
      return;
    case Query::check: {
      const bool ready = std::all_of(request.keys.begin(), request.keys.end(),
                                     [&](const auto& key) { return present(key); });
      outcome.replies.push_back({from, one_byte(ready ? kReady : kNotReady)});
      return;
    }
    case Query::wait:
      return wait(from, request, outcome);
    case Query::num_keys:
      outcome.replies.push_back({from, number(values_.size())});
      return;
    case Query::multi_get:
      return multi_get(from, request, outcome);
    case Query::cancel_wait:
      forget(from);
      outcome.replies.push_back({from, one_byte(kWaitCanceled)});
      return;
    case Query::ping:
      outcome.replies.push_back(
          {from, FrameWriter().u32(static_cast<std::uint32_t>(request.number)).take()});
      return;
    case Query::queue_len:
      outcome.replies.push_back({from, number(queue_length(request.keys[0]))});
      return;
    case Query::list_keys:
      return list_keys(from, outcome);
    case Query::validate:
      outcome.refusal = "a second handshake";
      return;
    default:
      return;
  }
}

bool Table::present(const std::string& key) const {
  return values_.contains(key) || queue_length(key) > 0;
}

std::size_t Table::queue_length(const std::string& key) const {
  const auto queue = queues_.find(key);
  return queue == queues_.end() ? 0 : queue->second.size();
}

bool Table::has_room(std::uint64_t bytes, Outcome& outcome) const {
  if (held_bytes_ + bytes <= kMaxHeldBytes) return true;
  outcome.refusal = "the store would hold more than " + std::to_string(kMaxHeldBytes) + " bytes";
  return false;
}

const Bytes& Table::value_or_empty(const std::string& key) const {
  static const Bytes empty;
  const auto value = values_.find(key);
  return value == values_.end() ? empty : value->second;
}

std::int64_t Table::erase(const std::string& key) {
  const auto value = values_.find(key);
  if (value == values_.end()) return 0;
  held_bytes_ -= kEntryBytes + key.size() + value->second.size();
  values_.erase(value);
  return 1;
}

void Table::put(const std::string& key, Bytes value, Outcome& outcome) {
  erase(key);
  const std::uint64_t bytes = kEntryBytes + key.size() + value.size();
  if (!has_room(bytes, outcome)) return;
  held_bytes_ += bytes;
  values_.emplace(key, std::move(value));
  wake(key, kEverybody, outcome);
}

void Table::append(const std::string& key, const Bytes& more, Outcome& outcome) {
  const auto found = values_.find(key);
  if (found == values_.end()) return put(key, more, outcome);
  if (found->second.size() + more.size() > kMaxValueBytes) {
    outcome.refusal = "a value would grow beyond " + std::to_string(kMaxValueBytes) + " bytes";
    return;
  }
  if (!has_room(more.size(), outcome)) return;
  held_bytes_ += more.size();
  found->second.insert(found->second.end(), more.begin(), more.end());
}

void Table::add(ConnectionId from, const Request& request, Outcome& outcome) {
  const std::string& key = request.keys[0];
  std::int64_t counter = 0;
  const auto found = values_.find(key);
  if (found != values_.end()) {
    const auto old = parse_counter(found->second);
    if (!old.has_value()) {
      outcome.refusal = "an add to a value that is not a number";
      return;
    }
    counter = *old;
  }
  if (__builtin_add_overflow(counter, static_cast<std::int64_t>(request.number), &counter)) {
    outcome.refusal = "an add beyond 64 bits";
    return;
  }
  const std::string digits = std::to_string(counter);
  outcome.replies.push_back({from, number(static_cast<std::uint64_t>(counter))});
  put(key, Bytes(digits.begin(), digits.end()), outcome);
}

void Table::compare_set(ConnectionId from, Request& request, Outcome& outcome) {
  const std::string& key = request.keys[0];
  const Bytes& expected = request.values[0];
  const auto found = values_.find(key);
  if (found == values_.end() && !expected.empty()) {
    // PyTorch's server gives the expected value back; its clients rely on it.
    outcome.replies.push_back({from, text(expected)});
    return;
  }
  if (found != values_.end() && found->second != expected) {
    outcome.replies.push_back({from, text(found->second)});
    return;
  }
  outcome.replies.push_back({from, text(request.values[1])});
  put(key, std::move(request.values[1]), outcome);
}

void Table::multi_get(ConnectionId from, const Request& request, Outcome& outcome) const {
  std::uint64_t total = 0;
  for (const auto& key : request.keys) total += 8 + value_or_empty(key).size();
  if (total > kMaxRequestBytes) {
    outcome.refusal = "an answer of " + std::to_string(total) + " bytes";
    return;
  }
  FrameWriter writer;
  for (const auto& key : request.keys) writer.text(value_or_empty(key));
  outcome.replies.push_back({from, writer.take()});
}

void Table::list_keys(ConnectionId from, Outcome& outcome) const {
  FrameWriter writer;
  writer.u64(values_.size());
  for (const auto& [key, value] : values_) {
    writer.text(key);
    if (writer.bytes().size() > kMaxRequestBytes) {
      outcome.refusal = "too many keys to list";
      return;
    }
  }
  outcome.replies.push_back({from, writer.take()});
}

void Table::wait(ConnectionId from, const Request& request, Outcome& outcome) {
  forget(from);
  std::unordered_set<std::string> missing;
  for (const auto& key : request.keys) {
    if (!present(key)) missing.insert(key);
  }
  if (missing.empty()) {
    outcome.replies.push_back({from, one_byte(kStopWaiting)});
    return;
  }
  for (const auto& key : missing) waiters_[key].push_back(from);
  missing_[from] = std::move(missing);
}

void Table::queue_push(const std::string& key, Bytes value, Outcome& outcome) {
  if (!has_room(kEntryBytes + value.size(), outcome)) return;
  held_bytes_ += kEntryBytes + value.size();
  queues_[key].push_back(std::move(value));
  wake(key, 1, outcome);  // one item, one taker
}

void Table::queue_pop(ConnectionId from, const std::string& key, Outcome& outcome) {
  FrameWriter writer;
  writer.u64(queue_length(key));
  if (queue_length(key) > 0) {
    auto& queue = queues_.at(key);
    writer.text(queue.front());
    held_bytes_ -= kEntryBytes + queue.front().size();
    queue.pop_front();
    if (queue.empty()) queues_.erase(key);
  }
  outcome.replies.push_back({from, writer.take()});
}

void Table::wake(const std::string& key, std::size_t at_most, Outcome& outcome) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  auto& queue = found->second;
  for (; at_most > 0 && !queue.empty(); --at_most) {
    const ConnectionId connection = queue.front();
    queue.pop_front();
    const auto wait = missing_.find(connection);
    wait->second.erase(key);
    if (!wait->second.empty()) continue;
    missing_.erase(wait);
    outcome.replies.push_back({connection, one_byte(kStopWaiting)});
  }
  if (queue.empty()) waiters_.erase(found);
}

void Table::forget(ConnectionId connection) {
  const auto wait = missing_.find(connection);
  if (wait == missing_.end()) return;
  for (const auto& key : wait->second) {
    const auto found = waiters_.find(key);
    std::erase(found->second, connection);
    if (found->second.empty()) waiters_.erase(found);
  }
  missing_.erase(wait);
}

}  // namespace lockstep::store
