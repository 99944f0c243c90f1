// Copies past the caches. Internal linkage: see reduce_kernel_impl.h.
#pragma once
#include <cstddef>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::comm::shm {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kVector = 64;
inline void stream_vector(std::byte* out, const std::byte* in) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(out),
                      _mm512_loadu_si512(reinterpret_cast<const void*>(in)));
}
inline void store_vector_twice(std::byte* out, std::byte* also, const std::byte* in) {
  const __m512i value = _mm512_loadu_si512(reinterpret_cast<const void*>(in));
  _mm512_storeu_si512(reinterpret_cast<void*>(out), value);
  _mm512_storeu_si512(reinterpret_cast<void*>(also), value);
}
#elif defined(__AVX2__)
constexpr std::size_t kVector = 32;
inline void stream_vector(std::byte* out, const std::byte* in) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(out),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
}
inline void store_vector_twice(std::byte* out, std::byte* also, const std::byte* in) {
  const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), value);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(also), value);
}
#elif defined(__x86_64__)
constexpr std::size_t kVector = 16;
inline void stream_vector(std::byte* out, const std::byte* in) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(out),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}
inline void store_vector_twice(std::byte* out, std::byte* also, const std::byte* in) {
  const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), value);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(also), value);
}
#endif

void copy_stream_bytes(void* out, const void* in, std::size_t bytes) {
#if defined(__x86_64__)
  auto* to = static_cast<std::byte*>(out);
  const auto* from = static_cast<const std::byte*>(in);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kVector;
  const std::size_t head = misaligned == 0 ? 0 : kVector - misaligned;
  if (bytes < head + kVector) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kVector <= bytes; at += kVector) stream_vector(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(out, in, bytes);
#endif
}

void copy_twice_bytes(void* out, void* also, const void* in, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__x86_64__)
  auto* to = static_cast<std::byte*>(out);
  auto* too = static_cast<std::byte*>(also);
  const auto* from = static_cast<const std::byte*>(in);
  for (; at + kVector <= bytes; at += kVector) store_vector_twice(to + at, too + at, from + at);
#endif
  std::memcpy(static_cast<std::byte*>(out) + at, static_cast<const std::byte*>(in) + at,
              bytes - at);
  std::memcpy(static_cast<std::byte*>(also) + at, static_cast<const std::byte*>(in) + at,
              bytes - at);
}

}  // namespace
}  // namespace lockstep::comm::shm
