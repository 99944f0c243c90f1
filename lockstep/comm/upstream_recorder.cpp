#include "lockstep/comm/upstream_recorder.h"

#include <cstdlib>

namespace lockstep::comm {

void switch_off_upstream_recorder() {
  static const int once = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  (void)once;
}

}  // namespace lockstep::comm
