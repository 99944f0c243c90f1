#include "lockstep/store/client.h"

#include <unistd.h>

#include <array>
#include <span>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "lockstep/store/frame.h"

namespace lockstep::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// PyTorch's clients put this before every key; so keys are shared with them.
std::string wire_key(const std::string& key) { return "/" + key; }

std::string list(const std::vector<std::string>& keys) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < keys.size() && i < kNamed; ++i) {
    text += (i == 0 ? "'" : ", '") + keys[i] + "'";
  }
  if (keys.size() > kNamed) text += " and " + std::to_string(keys.size() - kNamed) + " more";
  return text;
}

FrameWriter request_with_keys(Query query, const std::vector<std::string>& keys) {
  FrameWriter request(query);
  request.u64(keys.size());
  for (const auto& key : keys) request.text(wire_key(key));
  return request;
}

}  // namespace

struct Client::Impl {
  Fd socket;
  std::string address;
  milliseconds answer_deadline{30'000};  // of a request that the server can answer at once

  /// After a lost or silent connection answers and questions no longer match.
  [[noreturn]] void lost(const std::string& what) {
    socket.reset();
    throw EnvironmentFault({"LS-4102", "store at " + address, what,
                            "see whether the launcher (or rank 0) that serves the store has ended, "
                            "and why: its own message is the cause"});
  }

  void require(IoEnd end) {
    if (end == IoEnd::closed) lost("the store closed the connection");
    if (end == IoEnd::timed_out) {
      lost("the store did not answer within " + std::to_string(answer_deadline.count()) + " ms");
    }
  }

  void send(const FrameWriter& request) {
    if (!socket) lost("the connection to the store was lost before");
    require(write_all(socket.get(), request.bytes(), Clock::now() + answer_deadline));
  }

  std::uint64_t read_number(std::size_t width, Deadline deadline) {
    std::array<std::uint8_t, 8> bytes{};
    require(read_exact(socket.get(), std::span(bytes).first(width), deadline));
    return read_little_endian(bytes, width);
  }
  std::uint64_t read_number(std::size_t width) {
    return read_number(width, Clock::now() + answer_deadline);
  }

  Bytes read_text() {
    const auto deadline = Clock::now() + answer_deadline;
    const std::uint64_t length = read_number(8, deadline);
    if (length > kMaxValueBytes) lost("an answer of " + std::to_string(length) + " bytes");
    Bytes value(length);
    require(read_exact(socket.get(), value, deadline));
    return value;
  }

  void handshake();
  void wait(const std::vector<std::string>& keys, milliseconds deadline);
  /// Takes a wait back. \returns true when it was answered in the same moment.
  bool cancel_wait();
};

void Client::Impl::handshake() {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  FrameWriter request(Query::validate);
  request.u32(kMagic).u8(static_cast<std::uint8_t>(Query::ping)).u32(nonce);
  send(request);
  if (read_number(4) != nonce) lost("what answers here is not a c10d store");
}

void Client::Impl::wait(const std::vector<std::string>& keys, milliseconds deadline) {
  send(request_with_keys(Query::wait, keys));
  std::array<std::uint8_t, 1> answer{};
  const IoEnd end = read_exact(socket.get(), answer, Clock::now() + deadline);
  if (end == IoEnd::closed) require(end);
  if (end == IoEnd::timed_out && !cancel_wait()) {
    throw PeerLost(
        {"LS-4101", "store at " + address,
         "waited " + std::to_string(deadline.count()) + " ms for " + list(keys) +
             ", which nobody has set",
         "find the rank that should have set it: it has ended, hangs, or was never started"});
  }
  if (end == IoEnd::done && answer[0] != kStopWaiting) lost("a wait was answered with other bytes");
}

bool Client::Impl::cancel_wait() {
  send(FrameWriter(Query::cancel_wait));
  const auto first = read_number(1);
  if (first == kWaitCanceled) return false;
  if (read_number(1) != kWaitCanceled) lost("a cancelled wait was answered with other bytes");
  return true;
}

Client::Client(const std::string& host, int port, milliseconds connect_deadline,
               const OnWaiting& on_waiting)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = address_text(host, port);
  impl_->socket = connect_to(host, port, Clock::now() + connect_deadline, on_waiting);
  const milliseconds usual = std::exchange(impl_->answer_deadline, connect_deadline);
  impl_->handshake();
  impl_->answer_deadline = usual;
}

Client::~Client() = default;

void Client::set(const std::string& key, const Bytes& value) {
  impl_->send(FrameWriter(Query::set).text(wire_key(key)).text(value));
}

Bytes Client::compare_set(const std::string& key, const Bytes& expected, const Bytes& desired) {
  impl_->send(FrameWriter(Query::compare_set).text(wire_key(key)).text(expected).text(desired));
  return impl_->read_text();
}

Bytes Client::get(const std::string& key, milliseconds deadline) {
  impl_->wait({key}, deadline);
  impl_->send(FrameWriter(Query::get).text(wire_key(key)));
  return impl_->read_text();
}

std::int64_t Client::add(const std::string& key, std::int64_t amount) {
  impl_->send(FrameWriter(Query::add).text(wire_key(key)).u64(static_cast<std::uint64_t>(amount)));
  return static_cast<std::int64_t>(impl_->read_number(8));
}

bool Client::check(const std::vector<std::string>& keys) {
  impl_->send(request_with_keys(Query::check, keys));
  return impl_->read_number(1) == kReady;
}

void Client::wait(const std::vector<std::string>& keys, milliseconds deadline) {
  impl_->wait(keys, deadline);
}

bool Client::delete_key(const std::string& key) {
  impl_->send(FrameWriter(Query::delete_key).text(wire_key(key)));
  return impl_->read_number(8) == 1;
}

std::int64_t Client::num_keys() {
  impl_->send(FrameWriter(Query::num_keys));
  return static_cast<std::int64_t>(impl_->read_number(8));
}

void Client::append(const std::string& key, const Bytes& value) {
  impl_->send(FrameWriter(Query::append).text(wire_key(key)).text(value));
}

std::vector<Bytes> Client::multi_get(const std::vector<std::string>& keys) {
  impl_->send(request_with_keys(Query::multi_get, keys));
  std::vector<Bytes> values;
  for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(impl_->read_text());
  return values;
}

void Client::multi_set(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  LOCKSTEP_CHECK(keys.size() == values.size(), "a value for each key");
  FrameWriter request(Query::multi_set);
  request.u64(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) request.text(wire_key(keys[i])).text(values[i]);
  impl_->send(request);
}

void Client::queue_push(const std::string& name, const Bytes& value) {
  impl_->send(FrameWriter(Query::queue_push).text(wire_key(name)).text(value));
}

std::optional<Bytes> Client::queue_pop(const std::string& name) {
  impl_->send(FrameWriter(Query::queue_pop).text(wire_key(name)));
  if (impl_->read_number(8) == 0) return std::nullopt;
  return impl_->read_text();
}

std::int64_t Client::queue_length(const std::string& name) {
  impl_->send(FrameWriter(Query::queue_len).text(wire_key(name)));
  return static_cast<std::int64_t>(impl_->read_number(8));
}

std::vector<std::string> Client::list_keys() {
  impl_->send(FrameWriter(Query::list_keys));
  const std::uint64_t count = impl_->read_number(8);
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bytes key = impl_->read_text();
    if (!key.empty() && key[0] == '/') keys.emplace_back(key.begin() + 1, key.end());
  }
  return keys;
}

void Client::count_in() {
  // PyTorch's clients send this key without the '/' of their users' keys.
  impl_->send(FrameWriter(Query::add).text("init/").u64(1));
  (void)impl_->read_number(8);
}

void Client::set_answer_deadline(milliseconds deadline) { impl_->answer_deadline = deadline; }

}  // namespace lockstep::store
