// Offloading states to the host or its NVMe disk (states.h has the bytes).
#include <string>

#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  if (layout.offload_parameters != Offload::none && layout.zero != 3) {
    problems.push_back({"LS-6105", "--offload-parameters",
                        "only parameters that are shared (stage 3) can leave the device",
                        "use --zero 3, or drop it"});
  }
  if (layout.offload_optimizer == Offload::nvme && layout.zero != 3) {
    problems.push_back({"LS-6105", "--offload-optimizer",
                        "nvme takes states in the pieces of stage 3",
                        "use --zero 3, or --offload-optimizer cpu"});
  }
}

/// What is on a disk passes through the host in pieces of this many parameters: DeepSpeed's
/// aio buffers, offload_optimizer.buffer_count x offload_param.buffer_size (4 x 1e8).
constexpr double kDiskBuffers = 4e8;

void add(const StageSetting& s, AddedBytes& bytes) {
  const Layout& layout = s.layout();
  const bool disk =
      layout.offload_optimizer == Offload::nvme || layout.offload_parameters == Offload::nvme;
  if (disk) bytes.host += kDiskBuffers * s.recipe().reduce;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  const Layout& layout = s.layout;
  if (layout.offload_optimizer != Offload::none) {
    sentences.push_back("the optimizer is on the " +
                        std::string(to_text(layout.offload_optimizer)) +
                        (layout.zero >= 2 ? ", gradients too" : ""));
  }
  if (layout.offload_parameters != Offload::none) {
    sentences.push_back("parameters are on the " + std::string(to_text(layout.offload_parameters)) +
                        " but where they are gathered");
  }
}

}  // namespace

LayoutPart offload_part() { return {"offload", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
