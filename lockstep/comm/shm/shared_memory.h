// Memory that several processes of one host map. It has a name for an instant only: whatever ends
// whoever, nothing is left in /dev/shm.
#pragma once
#include <cstddef>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::comm::shm {

class SharedMemory {
 public:
  /// Creates zeroed memory with all its pages reserved, so that a full /dev/shm is an error here
  /// and no SIGBUS later. \throws EnvironmentFault (LS-4010) saying what is needed and what is
  /// free.
  [[nodiscard]] static SharedMemory create(std::size_t bytes);

  /// Maps what another process of this host created. \param locator its locator().
  /// \throws EnvironmentFault (LS-4011) when it cannot be opened: ended, or another user's.
  [[nodiscard]] static SharedMemory open(const std::string& locator);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// How other processes of this host find it, as long as the creator keeps its descriptor.
  [[nodiscard]] std::string locator() const;
  /// No process can map it from now on; mappings stay.
  void close_door() noexcept { fd_.reset(); }

 private:
  SharedMemory(Fd fd, std::size_t bytes, const std::string& where);

  Fd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::comm::shm
