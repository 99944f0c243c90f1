#include "lockstep/base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "lockstep/base/error.h"

namespace lockstep {

Code hmac_sha256(std::span<const std::uint8_t> key, std::string_view message) {
  Code code{};
  unsigned int bytes = 0;
  const auto* end = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                           code.data(), &bytes);
  LOCKSTEP_CHECK(end != nullptr && bytes == code.size(), "HMAC-SHA256 is not available");
  return code;
}

bool is_same_code(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep
