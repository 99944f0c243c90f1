#include "lockstep/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "lockstep/base/error.h"

namespace lockstep {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  LOCKSTEP_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1,
                 "SHA-256 is not available");
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1,
                 "SHA-256 failed");
}

void Sha256::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  LOCKSTEP_CHECK(EVP_DigestFinal_ex(impl_->context, digest.data(), nullptr) == 1, "SHA-256 failed");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

}  // namespace lockstep
