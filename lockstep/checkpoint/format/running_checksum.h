// The checksum of checksum.h over bytes that come in parts: a file that is larger than memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {

class RunningChecksum {
 public:
  RunningChecksum();
  void add(std::span<const std::byte> bytes);
  /// Of all bytes so far; more may follow.
  [[nodiscard]] std::uint64_t value() const;

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Delete> state_;
};

/// Of `byte_count` bytes from `offset` on. \throws as InputFile::read().
[[nodiscard]] std::uint64_t checksum_of_range(const InputFile& file, std::uint64_t offset,
                                              std::uint64_t byte_count);

}  // namespace lockstep::checkpoint
