// Requests to etcd over its JSON gateway (/v3, etcd 3.4 and later).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/rendezvous/endpoint.h"

namespace lockstep::rendezvous {

/// A request that came to nothing. Another may well.
class EtcdTrouble : public std::runtime_error {
 public:
  explicit EtcdTrouble(const std::string& what) : std::runtime_error(what) {}
};

/// A key as etcd keeps it. Revisions count the writes to the whole of etcd.
struct EtcdKey {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
};

/// A part of a transaction.
struct EtcdOperation {
  enum class Kind : std::uint8_t { put, range, remove };
  Kind kind = Kind::range;
  std::string key;
  std::string value{};             // of put
  std::int64_t lease = 0;          // of put; 0 = none
  bool is_prefix = false;          // of range: all keys that begin with `key`
  bool keys_only = false;          // of range
  std::int64_t from_revision = 0;  // of range: only keys written then or later
};

/// Which revision `key` was created at; 0 = it does not exist.
struct EtcdCondition {
  std::string key;
  std::int64_t create_revision = 0;
};

struct EtcdAnswer {
  bool succeeded = false;
  std::int64_t revision = 0;
  std::vector<std::vector<EtcdKey>> ranges;  // of the range operations, in order
};

struct EtcdTimes {
  std::chrono::milliseconds connect{700};
  std::chrono::milliseconds answer{1000};
};

/// Asks one server, and goes on to the next when it does not answer. One thread uses it.
class EtcdClient {
 public:
  explicit EtcdClient(std::vector<Endpoint> endpoints, EtcdTimes times = {});
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;
  ~EtcdClient();

  /// \throws EtcdTrouble as all that follow; EnvironmentFault (LS-3066) where TLS is wanted.
  /// \returns the lease's id.
  [[nodiscard]] std::int64_t grant_lease(std::chrono::seconds time_to_live);
  /// False when the lease has ended.
  [[nodiscard]] bool keep_lease(std::int64_t lease);
  /// Carries out `then` if all conditions hold, else `otherwise`, as one.
  [[nodiscard]] EtcdAnswer transact(const std::vector<EtcdCondition>& conditions,
                                    const std::vector<EtcdOperation>& then,
                                    const std::vector<EtcdOperation>& otherwise);
  /// A connection of its own on which bytes come at once, and whenever a key from `first` on and
  /// before `end` is written or removed. It does not block; its end is that of the watch.
  [[nodiscard]] Fd watch(const std::string& first, const std::string& end);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::rendezvous
