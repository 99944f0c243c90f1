#include "lockstep/checkpoint/format/damaged.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

void throw_damaged(const std::string& where, const std::string& what) {
  throw BadData(
      {"LS-5004", where, what, "restore the file from a copy, or resume from an older checkpoint"});
}

}  // namespace lockstep::checkpoint
