#include "lockstep/memory/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace lockstep::memory {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * 1024 * 1024;
constexpr std::size_t kMappedFrom = 128 * 1024;
// Below, a huge page saves too few faults to pay for clearing what is never touched.
constexpr std::size_t kHugeFrom = 2 * kHugePage;

// The header of a mapped block has a page of its own, so that the payload can start on a huge page.
std::size_t mapped_bytes(std::size_t capacity_bytes) {
  return kPage + (capacity_bytes + kPage - 1) / kPage * kPage;
}

std::byte* map(std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

void* map_on_huge_pages(std::size_t capacity_bytes, std::size_t wanted_bytes) {
  const std::size_t needed = mapped_bytes(capacity_bytes);
  std::byte* const start = map(needed + kHugePage);
  if (start == nullptr) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(start) + kPage;
  const std::size_t head = (kHugePage - first % kHugePage) % kHugePage;
  std::byte* const payload = start + head + kPage;
  if (head > 0) ::munmap(start, head);
  if (head < kHugePage) ::munmap(start + head + needed, kHugePage - head);
  ::madvise(payload, wanted_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return payload;
}

}  // namespace

void* make_payload(std::size_t capacity_bytes, std::size_t wanted_bytes) noexcept {
  if (capacity_bytes < kMappedFrom) {
    void* start = nullptr;
    const std::size_t bytes = kHeaderBytes + capacity_bytes;
    if (::posix_memalign(&start, kAlignment, bytes) != 0) return nullptr;
    return static_cast<std::byte*>(start) + kHeaderBytes;
  }
  if (wanted_bytes >= kHugeFrom) return map_on_huge_pages(capacity_bytes, wanted_bytes);
  std::byte* const start = map(mapped_bytes(capacity_bytes));
  return start == nullptr ? nullptr : start + kPage;
}

void give_back_payload(void* payload, std::size_t capacity_bytes) noexcept {
  auto* const bytes = static_cast<std::byte*>(payload);
  if (capacity_bytes < kMappedFrom) {
    std::free(bytes - kHeaderBytes);
  } else {
    ::munmap(bytes - kPage, mapped_bytes(capacity_bytes));
  }
}

}  // namespace lockstep::memory
