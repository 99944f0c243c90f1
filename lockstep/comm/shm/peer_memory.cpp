#include "lockstep/comm/shm/peer_memory.h"

#include <linux/futex.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

namespace lockstep::comm::shm {
namespace {

std::uint64_t random_word() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace

PeerMemory::PeerMemory(const Segment& segment) : segment_(segment), proof_(random_word()) {
  RankBlock& own = segment_.own();
  own.process.store(::getpid());
  own.proof_address.store(reinterpret_cast<std::uintptr_t>(&proof_));
  own.proof.store(proof_);
}

bool PeerMemory::is_readable() {
  if (!readable_) {
    readable_ = true;
    for (int r = 0; r < segment_.ranks(); ++r) {
      if (r != segment_.rank() && !proves(r)) readable_ = false;
    }
  }
  return *readable_;
}

bool PeerMemory::proves(int rank) const {
  const RankBlock& block = segment_.block(rank);
  std::uint64_t found = 0;
  return read(rank, block.proof_address.load(), &found, sizeof found) &&
         found == block.proof.load();
}

bool PeerMemory::read(int from, std::uint64_t address, void* to, std::size_t bytes) const {
  const auto process = static_cast<pid_t>(segment_.block(from).process.load());
  auto* const there = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
#if defined(__SANITIZE_THREAD__)
  if (process == ::getpid()) {  // it sees no races in what the kernel copies
    std::memcpy(to, there, bytes);
    return true;
  }
#endif
  const iovec here{to, bytes};
  const iovec remote{there, bytes};
  return ::process_vm_readv(process, &here, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool PeerMemory::still_holds(int rank) const {
  // Whoever withdraws says so before its buffers may be used for something else, and the kernel
  // marks the life of a process before its memory or its number goes to another.
#if !defined(__SANITIZE_THREAD__)  // it knows no fences
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  const RankBlock& block = segment_.block(rank);
  return block.withdrawn.load(std::memory_order_acquire) == 0 &&
         (block.life.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) == 0;
}

}  // namespace lockstep::comm::shm
