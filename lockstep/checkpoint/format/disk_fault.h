// What a disk refuses while a checkpoint is written or read, in plain words: what it is, how much
// is needed and free, and what to do.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

/// What an answer of the system means to whoever trains.
struct DiskAnswer {
  std::string reason;  // "the file system is read-only"
  std::string fix;     // "mount it writable"
};

/// \param error as errno. One without words of its own has those of the system.
[[nodiscard]] DiskAnswer disk_answer(int error);

/// A checkpoint that is being written.
struct DiskUse {
  std::filesystem::path folder;                     // where; it need not exist yet
  std::uint64_t need = 0;                           // bytes of the whole checkpoint
  std::string otherwise = "write to another disk";  // ends the advice
};

/// A full disk or quota is LS-5001, everything else LS-5002. The message has path, need and free.
[[nodiscard]] EnvironmentFault disk_fault(const std::filesystem::filesystem_error& error,
                                          const DiskUse& use);

/// \throws EnvironmentFault (LS-5001) when fewer than use.need bytes are free in use.folder, or in
/// the first folder above it that exists.
void require_room(const DiskUse& use);

}  // namespace lockstep::checkpoint
