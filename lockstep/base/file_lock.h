// The system's lock on an open file or folder: it goes with its process, however that ends.
#pragma once
#include "lockstep/base/fd.h"

namespace lockstep {

/// Takes the lock of `file` until its descriptor is closed. \returns false when somebody else holds
/// it. Where a file system knows no locks, true: nobody can hold one.
[[nodiscard]] bool take_lock(const Fd& file);

}  // namespace lockstep
