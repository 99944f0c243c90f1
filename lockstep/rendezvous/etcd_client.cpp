#include "lockstep/rendezvous/etcd_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/base64.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/http_reply.h"
#include "lockstep/rendezvous/reach.h"

namespace lockstep::rendezvous {
namespace {

using nlohmann::json;

/// The first key after all that begin with `prefix`, none of which ends with 0xff here.
std::string after_prefix(std::string prefix) {
  ++prefix.back();
  return prefix;
}

/// 64-bit numbers are texts in the gateway's JSON, and zeros are left out.
std::int64_t number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  const std::string text = found->get<std::string>();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw EtcdTrouble(std::string(key) + " is no number");
  }
  return value;
}

std::string bytes(const json& object, const char* key) {
  const auto decoded = from_base64(object.value(key, std::string()));
  if (!decoded) throw EtcdTrouble(std::string(key) + " is no base64");
  return *decoded;
}

json to_json(const EtcdOperation& operation) {
  json request{{"key", to_base64(operation.key)}};
  if (operation.kind == EtcdOperation::Kind::remove) return {{"request_delete_range", request}};
  if (operation.kind == EtcdOperation::Kind::put) {
    request["value"] = to_base64(operation.value);
    if (operation.lease != 0) request["lease"] = std::to_string(operation.lease);
    return {{"request_put", request}};
  }
  if (operation.is_prefix) request["range_end"] = to_base64(after_prefix(operation.key));
  if (operation.keys_only) request["keys_only"] = true;
  if (operation.from_revision > 0) {
    request["min_mod_revision"] = std::to_string(operation.from_revision);
  }
  return {{"request_range", request}};
}

json to_json(const std::vector<EtcdOperation>& operations) {
  json list = json::array();
  for (const auto& operation : operations) list.push_back(to_json(operation));
  return list;
}

json to_json(const EtcdCondition& condition) {
  return {{"key", to_base64(condition.key)},
          {"target", "CREATE"},
          {"result", "EQUAL"},
          {"create_revision", std::to_string(condition.create_revision)}};
}

EtcdKey key_from(const json& object) {
  return {bytes(object, "key"), bytes(object, "value"), number(object, "create_revision"),
          number(object, "mod_revision")};
}

/// False when the deadline passed.
bool wait_for_input(int socket, Deadline deadline) {
  pollfd ready{socket, POLLIN, 0};
  return ::poll(&ready, 1, poll_timeout_ms(deadline)) != 0;
}

EtcdAnswer answer_from(const json& reply) {
  EtcdAnswer answer;
  answer.succeeded = reply.value("succeeded", false);
  answer.revision = number(reply.at("header"), "revision");
  for (const auto& response : reply.value("responses", json::array())) {
    const auto range = response.find("response_range");
    if (range == response.end()) continue;
    auto& keys = answer.ranges.emplace_back();
    for (const auto& key : range->value("kvs", json::array())) keys.push_back(key_from(key));
  }
  return answer;
}

/// Whether an answer begins as that of a server of TLS to plain HTTP: Go's in words, others' with
/// an alert (RFC 8446, 5.1).
bool wants_tls(std::string_view bytes) {
  const bool says_so =
      bytes.starts_with("HTTP/1.0 400 ") && bytes.find("an HTTPS server") != std::string_view::npos;
  return says_so || bytes.starts_with("\x15\x03");
}

/// As short as RFC 5246 (7.4.1.2) allows: one cipher, no extensions. Any server of TLS answers it,
/// if only by refusing.
std::string client_hello() {
  std::string hello("\x03\x03", 2);
  hello += std::string(32, 'l');                            // the random
  hello += std::string("\x00\x00\x02\xc0\x2f\x01\x00", 7);  // session, cipher, compression
  const char length = static_cast<char>(hello.size());
  const std::string message = std::string("\x01\x00\x00", 3) + length + hello;
  const char all = static_cast<char>(message.size());
  return std::string("\x16\x03\x01\x00", 4) + all + message;
}

[[noreturn]] void fail_for_tls(const Endpoint& endpoint) {
  throw EnvironmentFault({"LS-3066", endpoint.text(), "what listens there speaks TLS only",
                          "let etcd listen for plain http on a network that the hosts alone reach "
                          "(--listen-client-urls), or name a proxy on each host that speaks TLS to "
                          "it, as stunnel does"});
}

}  // namespace

struct EtcdClient::Impl {
  using Clock = std::chrono::steady_clock;

  std::vector<Endpoint> endpoints;
  EtcdTimes times;
  std::size_t current = 0;
  Fd socket{};  // to the current endpoint
  bool has_answered = false;

  [[nodiscard]] Fd connect();
  [[nodiscard]] bool is_tls();
  [[nodiscard]] std::string request_of(const std::string& path, const json& body) const;
  void send(int to, const std::string& request, Deadline deadline);
  json post(const std::string& path, const json& body);
  HttpReply exchange(const std::string& request);
  [[noreturn]] void fail(const std::string& what);
};

/// Whether another server would do better is seen the next time.
void EtcdClient::Impl::fail(const std::string& what) {
  const std::string where = endpoints[current].text();
  socket.reset();
  current = (current + 1) % endpoints.size();
  throw EtcdTrouble(where + ": " + what);
}

/// One request and its answer. A connection that was kept may have been closed meanwhile; whether
/// the request was carried out is then not known, so it is not made again here.
HttpReply EtcdClient::Impl::exchange(const std::string& request) {
  if (!socket) socket = connect();
  const Deadline deadline = Clock::now() + times.answer;
  send(socket.get(), request, deadline);
  HttpReply reply;
  auto took = HttpReply::Took::need_more;
  std::array<char, std::size_t{64} << 10> piece;
  while (took == HttpReply::Took::need_more) {
    const ssize_t n = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (n > 0) {
      const std::string_view bytes(piece.data(), static_cast<std::size_t>(n));
      if (wants_tls(bytes)) fail_for_tls(endpoints[current]);
      took = reply.add(bytes);
    } else if (n < 0 && errno == EAGAIN) {
      if (!wait_for_input(socket.get(), deadline)) fail("no answer in time");
    } else if (n == 0 || errno != EINTR) {
      if (!has_answered && is_tls()) fail_for_tls(endpoints[current]);
      fail("the connection was lost");
    }
  }
  has_answered = true;
  if (took == HttpReply::Took::refused) fail(reply.refusal());
  return reply;
}

Fd EtcdClient::Impl::connect() {
  Tried tried = try_to_connect(endpoints[current], Clock::now() + times.connect, -1);
  if (!tried.connected) fail(tried.text);
  enable_fast_and_watched(tried.connected.get());
  return std::move(tried.connected);
}

/// Whether the server answers the beginning of TLS, as etcd does that closes all other connections
/// without a word.
bool EtcdClient::Impl::is_tls() {
  const Fd probe = connect();
  send(probe.get(), client_hello(), Clock::now() + times.answer);
  if (!wait_for_input(probe.get(), Clock::now() + times.answer)) return false;
  std::array<char, 2> record{};
  const ssize_t n = ::recv(probe.get(), record.data(), record.size(), 0);
  return n == 2 && (record[0] == 0x15 || record[0] == 0x16) && record[1] == 0x03;
}

std::string EtcdClient::Impl::request_of(const std::string& path, const json& body) const {
  const std::string content = body.dump();
  return "POST " + path + " HTTP/1.1\r\nHost: " + endpoints[current].text() +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(content.size()) +
         "\r\n\r\n" + content;
}

void EtcdClient::Impl::send(int to, const std::string& request, Deadline deadline) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(request.data());
  if (write_all(to, {bytes, request.size()}, deadline) == IoEnd::done) return;
  fail("the connection was lost");
}

json EtcdClient::Impl::post(const std::string& path, const json& body) {
  const HttpReply reply = exchange(request_of(path, body));
  const json answer = json::parse(reply.body(), nullptr, false);
  const std::string status = "HTTP status " + std::to_string(reply.status());
  if (!answer.is_object()) fail("what answers is no etcd (" + status + ")");
  if (reply.status() != 200) fail(answer.value("error", status));
  if (reply.closes()) socket.reset();
  return answer;
}

EtcdClient::EtcdClient(std::vector<Endpoint> endpoints, EtcdTimes times)
    : impl_(std::make_unique<Impl>(Impl{std::move(endpoints), times})) {}

EtcdClient::~EtcdClient() = default;

namespace {

/// What etcd never sends counts as no answer.
template <class Read>
auto understood(const Read& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw EtcdTrouble(std::string("an answer that etcd does not give: ") + error.what());
  }
}

}  // namespace

std::int64_t EtcdClient::grant_lease(std::chrono::seconds time_to_live) {
  return understood([&] {
    const json reply =
        impl_->post("/v3/lease/grant", {{"TTL", std::to_string(time_to_live.count())}});
    const std::int64_t lease = number(reply, "ID");
    if (lease == 0) throw EtcdTrouble("etcd gave no lease");
    return lease;
  });
}

bool EtcdClient::keep_lease(std::int64_t lease) {
  return understood([&] {
    const json reply = impl_->post("/v3/lease/keepalive", {{"ID", std::to_string(lease)}});
    return number(reply.at("result"), "TTL") > 0;
  });
}

EtcdAnswer EtcdClient::transact(const std::vector<EtcdCondition>& conditions,
                                const std::vector<EtcdOperation>& then,
                                const std::vector<EtcdOperation>& otherwise) {
  return understood([&] {
    json compare = json::array();
    for (const auto& condition : conditions) compare.push_back(to_json(condition));
    return answer_from(impl_->post(
        "/v3/kv/txn",
        {{"compare", compare}, {"success", to_json(then)}, {"failure", to_json(otherwise)}}));
  });
}

Fd EtcdClient::watch(const std::string& first, const std::string& end) {
  const json keys{{"key", to_base64(first)}, {"range_end", to_base64(end)}};
  const std::string request = impl_->request_of("/v3/watch", {{"create_request", keys}});
  Fd stream = impl_->connect();
  impl_->send(stream.get(), request, Impl::Clock::now() + impl_->times.answer);
  return stream;
}

}  // namespace lockstep::rendezvous
