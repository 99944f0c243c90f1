// What a disk refuses while a checkpoint is written, as errors that say how much it needs.
#pragma once
#include <cstdint>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

/// A full disk or quota is LS-5001, everything else LS-5002. \param folder where it is written.
/// \param need bytes of the whole checkpoint.
[[nodiscard]] EnvironmentFault disk_fault(const std::filesystem::filesystem_error& error,
                                          const std::filesystem::path& folder, std::uint64_t need);

/// \param folder which need not exist yet: then the first one above that does counts.
/// \throws EnvironmentFault (LS-5001) when fewer than `need` bytes are free there.
void require_room(const std::filesystem::path& folder, std::uint64_t need);

}  // namespace lockstep::checkpoint
