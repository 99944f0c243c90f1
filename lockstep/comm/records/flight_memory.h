// The memory of a flight recorder: anonymous at first, then a file that survives the process.
#pragma once
#include <cstddef>
#include <filesystem>

namespace lockstep::comm {

class FlightMemory {
 public:
  /// Zeros; pages are taken when they are first written. \throws std::bad_alloc.
  explicit FlightMemory(std::size_t size_bytes);
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;
  ~FlightMemory();

  [[nodiscard]] std::byte* data() const { return data_; }

  /// Copies what is there into a new file and puts that file in the memory's place: addresses stay.
  /// The file appears under `target` whole, its disk space taken. \throws EnvironmentFault
  /// (LS-4023); the memory then stays as it is.
  void move_to(const std::filesystem::path& target);

 private:
  std::byte* data_;
  std::size_t size_bytes_;
};

}  // namespace lockstep::comm
