#include "lockstep/comm/store_adapter.h"

#include <utility>

namespace lockstep::comm {

using Bytes = std::vector<std::uint8_t>;

StoreAdapter::StoreAdapter(std::string host, int port, std::chrono::milliseconds deadline,
                           const OnWaiting& on_waiting)
    : c10d::Store(deadline),
      host_(std::move(host)),
      port_(port),
      client_(host_, port_, deadline, on_waiting) {}

c10::intrusive_ptr<c10d::Store> StoreAdapter::clone() {
  return c10::make_intrusive<StoreAdapter>(host_, port_, timeout_);
}

void StoreAdapter::set(const std::string& key, const Bytes& value) {
  const std::lock_guard lock(mutex_);
  client_.set(key, value);
}

Bytes StoreAdapter::compareSet(const std::string& key, const Bytes& expected,
                               const Bytes& desired) {
  const std::lock_guard lock(mutex_);
  return client_.compare_set(key, expected, desired);
}

Bytes StoreAdapter::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return client_.get(key, timeout_);
}

std::int64_t StoreAdapter::add(const std::string& key, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  return client_.add(key, amount);
}

bool StoreAdapter::deleteKey(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return client_.delete_key(key);
}

bool StoreAdapter::check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  return client_.check(keys);
}

std::int64_t StoreAdapter::getNumKeys() {
  const std::lock_guard lock(mutex_);
  return client_.num_keys();
}

void StoreAdapter::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void StoreAdapter::wait(const std::vector<std::string>& keys,
                        const std::chrono::milliseconds& deadline) {
  const std::lock_guard lock(mutex_);
  client_.wait(keys, deadline);
}

void StoreAdapter::append(const std::string& key, const Bytes& value) {
  const std::lock_guard lock(mutex_);
  client_.append(key, value);
}

}  // namespace lockstep::comm
