// Seconds of one block for one micro-batch on one rank, its exchange with tensor, context and
// expert ranks included.
#pragma once
#include "lockstep/parallel/cost/block_runs.h"
#include "lockstep/parallel/cost/operator_time.h"
#include "lockstep/parallel/cost/software_stack.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/topology/machine.h"

namespace lockstep::parallel {

struct BlockTime {
  double forward_s = 0;
  double backward_s = 0;
  double recompute_s = 0;
  // Exposed exchange in each of them.
  double forward_comm_s = 0;
  double backward_comm_s = 0;
  double recompute_comm_s = 0;
  double tensor_bytes = 0;  // sent in all three
  double parameters = 0;    // elements that the rank has or, where they are shared out, gathers

  [[nodiscard]] double forward_all_s() const { return forward_s + forward_comm_s; }
  [[nodiscard]] double backward_all_s() const {
    return backward_s + backward_comm_s + recompute_s + recompute_comm_s;
  }
};

[[nodiscard]] BlockTime block_time(const BlockRun& run, const Layout& layout,
                                   const OperatorSetting& setting, const Machine& machine,
                                   const SoftwareStack& stack);

}  // namespace lockstep::parallel
