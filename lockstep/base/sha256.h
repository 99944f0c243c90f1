// SHA-256 of bytes that arrive in pieces.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  /// The digest in 64 lower-case hex digits; nothing may be added afterwards.
  [[nodiscard]] std::string hex();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace lockstep
