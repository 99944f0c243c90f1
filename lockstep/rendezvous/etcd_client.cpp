#include "lockstep/rendezvous/etcd_client.h"

#define CPPHTTPLIB_OPENSSL_SUPPORT  // as Debian builds the library
#include <httplib.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "lockstep/base/base64.h"
#include "lockstep/base/error.h"

namespace lockstep::rendezvous {
namespace {

using nlohmann::json;
constexpr int kPort = 2379;
constexpr std::size_t kMaxAnswerBytes = std::size_t{256} << 20;

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

}  // namespace

struct EtcdClient::Impl {
  std::vector<Endpoint> endpoints;
  EtcdTimes times;
  std::size_t current = 0;
  std::unique_ptr<httplib::Client> http{};  // to the current endpoint

  void connect();
  json post(const std::string& path, const json& body);
};

void EtcdClient::Impl::connect() {
  const Endpoint& endpoint = endpoints[current];
  http = std::make_unique<httplib::Client>(endpoint.host, endpoint.port);
  http->set_keep_alive(true);
  http->set_tcp_nodelay(true);
  http->set_connection_timeout(times.connect);
  http->set_read_timeout(times.answer);
  http->set_write_timeout(times.answer);
}

/// One request to one server: whether another one would do better is seen the next time.
json EtcdClient::Impl::post(const std::string& path, const json& body) {
  if (!http) connect();
  const std::string where = endpoints[current].text();
  std::string text;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.set_header("Content-Type", "application/json");
  request.body = body.dump();
  request.content_receiver = [&text](const char* data, std::size_t count, std::uint64_t,
                                     std::uint64_t) {
    text.append(data, count);
    return text.size() <= kMaxAnswerBytes;
  };
  const httplib::Result result = http->send(request);
  const auto fail = [&](const std::string& what) {
    http.reset();
    current = (current + 1) % endpoints.size();
    throw EtcdTrouble(where + ": " + what);
  };
  if (!result) fail(httplib::to_string(result.error()));
  const json reply = json::parse(text, nullptr, false);
  if (!reply.is_object())
    fail("what answers is no etcd (HTTP status " + std::to_string(result->status) + ")");
  if (result->status != 200)
    fail(reply.value("error", "HTTP status " + std::to_string(result->status)));
  return reply;
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

std::vector<Endpoint> etcd_endpoints_from(const std::string& text) {
  std::vector<Endpoint> endpoints;
  const auto fail = [&](const std::string& part) {
    throw UsageError(
        {{"LS-1013", "--rdzv-endpoint", "'" + part + "' is no address of an etcd",
          "write host:port, more than one with commas between: host1:2379,host2:2379"}});
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const auto colon = part.rfind(':');
    const bool has_port = colon != std::string::npos &&
                          part.find(']', colon) == std::string::npos &&
                          (part.find(':') == colon || part.starts_with('['));
    Endpoint endpoint{has_port ? part.substr(0, colon) : part, kPort};
    if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    }
    if (has_port) {
      const char* last = part.data() + part.size();
      const auto [rest, error] = std::from_chars(part.data() + colon + 1, last, endpoint.port);
      if (error != std::errc() || rest != last) fail(part);
    }
    if (endpoint.host.empty() || endpoint.port < 1 || endpoint.port > 65535) fail(part);
    endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

}  // namespace lockstep::rendezvous
