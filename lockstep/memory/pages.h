// Raw memory of a block and the 64 bytes before it, from malloc or from the kernel.
#pragma once
#include <cstddef>

namespace lockstep::memory {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kHeaderBytes = 64;

/// The payload of a new block: kAlignment-aligned, kHeaderBytes before it are writable too. Large
/// blocks are mapped, so that giving one back lowers resident memory; of these the first
/// `wanted_bytes` are put on huge pages where whole ones fit. nullptr when memory is out.
[[nodiscard]] void* make_payload(std::size_t capacity_bytes, std::size_t wanted_bytes) noexcept;
/// Takes back what make_payload(capacity_bytes, ...) gave.
void give_back_payload(void* payload, std::size_t capacity_bytes) noexcept;

}  // namespace lockstep::memory
