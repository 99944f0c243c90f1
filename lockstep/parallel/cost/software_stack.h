// How a training program spends its time beside the mathematics: what its exchange hides behind,
// how it computes attention. Facts from its source or paper, and at most one fitted constant.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// What the one constant of a stack multiplies. A stack of fewer than three published rows has
/// none.
enum class StackConstant : std::uint8_t {
  none,
  device_time,  // of all operators
  gather_rate,  // of what a device receives while parameters are gathered
  hand_over,    // of what a pipeline stage hands to the next
};

/// How gradients are grouped that are exchanged beside backward.
struct GradientBuckets {
  bool beside_backward = false;  // else all of them behind the last backward
  double bytes = 0;              // of a bucket as it travels; 0 = by elements
  double elements = 0;           // of a bucket; 0 = a layer each
  double elements_a_rank = 0;    // and at least so many for each data rank
  /// Updated weights of ZeRO 1 and 2 are gathered beside the next forward.
  bool gathers_beside_forward = false;
};

struct SoftwareStack {
  std::string_view name;    // as in published_runs.csv, column software
  std::string_view source;  // of the facts
  /// Flash attention: of FlashAttention-2's rate; 0 where scores are written out.
  /// Layout::flash_attention decides.
  double flash = 1;
  bool sequence = false;  // runs sequence parallelism unasked
  // Shares of the tensor ranks' exchange that nothing hides; the last where sequence parallelism
  // gathers once more in backward.
  double exposed_forward = 1;
  double exposed_backward = 1;
  double exposed_sequence_backward = 1;
  GradientBuckets buckets{};
  bool linear_exchange = false;     // data ranks add up in one place (MPI on CPUs)
  bool flat_gather = false;         // parameters reach each device through its own network card
  bool skips_last_product = false;  // recomputation stops before it: nothing needs its result
  bool scatters_hand_over = false;  // a stage hands over 1/t and gathers inside the host
  StackConstant kind = StackConstant::none;
  double constant = 1;
};

[[nodiscard]] std::span<const SoftwareStack> software_stacks();
/// Null when there is none of that name.
[[nodiscard]] const SoftwareStack* find_stack(std::string_view name);
/// What plans assume where nobody names a stack: today's usual, "Megatron-Core 0.8" with tensor or
/// pipeline ranks, else "PyTorch FSDP" where states are shared and "PyTorch DDP" where not.
[[nodiscard]] const SoftwareStack& usual_stack(const Layout& layout);
[[nodiscard]] const SoftwareStack& usual_stack(bool splits_layers);

}  // namespace lockstep::parallel
