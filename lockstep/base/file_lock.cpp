#include "lockstep/base/file_lock.h"

#include <sys/file.h>

#include <cerrno>

namespace lockstep {

bool take_lock(const Fd& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace lockstep
