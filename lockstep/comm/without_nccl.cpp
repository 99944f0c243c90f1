// Stands where nccl_group.cpp does in builds with CUDA.
#include "lockstep/base/error.h"
#include "lockstep/comm/gpu_faults.h"
#include "lockstep/comm/make_group.h"

namespace lockstep::comm {

void require_nccl(const GroupOptions& options) { throw no_nccl_in_this_build(where_of(options)); }

std::unique_ptr<Group> make_nccl_group(const GroupOptions& options, Meeting /*meeting*/) {
  throw no_nccl_in_this_build(where_of(options));
}

}  // namespace lockstep::comm
