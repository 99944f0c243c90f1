// Our torch-free store client as a c10d::Store: upstream backends join over any address of ours.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/store/client.h"

namespace lockstep::comm {

/// Thread-safe: calls take turns on one connection. clone() opens another one.
class StoreAdapter : public c10d::Store {
 public:
  /// \param host as store::Client takes it; `deadline` bounds the connection and every wait without
  /// a time of its own. \throws EnvironmentFault when the store cannot be reached.
  /// \param on_waiting told now and then while nothing answers there.
  StoreAdapter(std::string host, int port, std::chrono::milliseconds deadline,
               const OnWaiting& on_waiting = {});

  using c10d::Store::compareSet;
  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& deadline) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;

 private:
  const std::string host_;
  const int port_;
  std::mutex mutex_;
  store::Client client_;
};

}  // namespace lockstep::comm
