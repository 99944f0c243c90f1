// Memory that several processes of one host map. It has a name for an instant only: whatever ends
// whoever, nothing is left in /dev/shm.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::comm::shm {

class SharedMemory {
 public:
  /// When the pages of a mapping are there: at once, or as reserve() asks for them.
  enum class Pages : std::uint8_t { now, later };

  /// Creates zeroed memory with all its pages reserved, so that a full /dev/shm is an error here
  /// and no SIGBUS later. \throws EnvironmentFault (LS-4010) saying what is needed and what is
  /// free.
  [[nodiscard]] static SharedMemory create(std::size_t bytes, Pages pages = Pages::now);

  /// Maps what another process of this host created. \param locator its locator().
  /// With Pages::later its door stays open for reserve(). \throws EnvironmentFault, PeerLost
  /// (LS-4011) when it cannot be opened: another user's, ended, or not what it was.
  [[nodiscard]] static SharedMemory open(const std::string& locator, Pages pages = Pages::now);

  /// Reserves and maps a range of pages, on the memory node of the calling thread.
  /// \returns false when there is no room.
  [[nodiscard]] bool reserve(std::size_t offset, std::size_t bytes) const;
  /// For who was refused one: what all of it needs, and what is free.
  /// \throws EnvironmentFault (LS-4010).
  [[noreturn]] static void fail_full(std::size_t bytes);

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
  SharedMemory(Fd fd, std::size_t bytes, const std::string& where, Pages pages);

  Fd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::comm::shm
